"""Translation of text: files as a resumable job, pipes as a stream. It needs no Prefect, and logs totals to MLflow."""

import errno
import os
import secrets
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, get_args

from flows.display import reports
from flows.registry.models import Model, model_of
from flows.runs.summary import status_of
from flows.settings import Settings
from nmt_core.bundle.folder import precision_for, read_bundle, read_tokenizers
from nmt_core.config import Precision, SearchConfig
from nmt_core.documents.document import Options, Redo
from nmt_core.documents.opening import format_by_name
from nmt_core.errors import ConfigError, DataError, NmtError, StageError, words_of
from nmt_core.execution.pool import InProcess, LocalWorkers, Workers
from nmt_core.jobs.folder import JobFolder
from nmt_core.jobs.inputs import Inputs, absolute, find_inputs
from nmt_core.jobs.order import GlossaryIdentity, JobRequest, Order, Shadow
from nmt_core.store import storage
from nmt_core.store.storage import local_path
from nmt_core.terms.glossary import Term, identity_of
from nmt_core.tokenizer.language_tokens import pair_for

if TYPE_CHECKING:
    from nmt_core.jobs.pace import Progress
    from nmt_core.jobs.run import Outcome

PIPE = "-"
EXPERIMENT = "translate"
"""Name of the MLflow experiment."""


@dataclass(frozen=True)
class TranslationRequest:
    """Text to translate, and how to translate it. See the options of `nmt translate`."""

    model: str
    source: str
    target: str
    _: KW_ONLY
    column: str = ""
    job: str = ""
    """Folder of the job. Empty means a folder beside the target."""
    beam_size: int | None = None
    long_lines: str = ""
    prefix_column: str = ""
    to: str = ""
    """Target language, or pair of languages, such as de or en-de. Empty means the model's only one."""
    to_column: str = ""
    """Column of a table with the target language of each row. Empty means none."""
    overrides: tuple[str, ...] = ()
    """Options of the search, such as `search.n_best=3`."""
    alignments: str = ""
    """none, words or pieces. Empty means the model's own setting."""
    line_by_line: bool = False
    """True translates and writes each line before the next one is read, if input or output is a pipe."""

    keep: tuple[str, ...] = ()
    """Columns of the input to carry over to the output, or `all`."""
    glossary: str = ""
    """Table of terms and their translations. Empty means none."""
    keep_terms: str = ""
    """List of terms that stay as they are. Empty means none."""
    inflected_terms: bool = False
    """True finds inflected forms of the terms too."""

    redo: str = "none"
    """Translations in documents to replace: none, fuzzy or all."""
    for_review: bool = False
    """True marks new translations in documents for review."""
    shadow: str = ""
    """Challenger that translates a share of the lines too. Empty means none."""
    share: float = 0.05
    """Share of the lines that the challenger translates."""
    review: int = 0
    """Number of lines to write for correction. 0 means none."""

    @property
    def is_job(self) -> bool:
        """True if files are read and written, so that the job can be resumed."""
        return PIPE not in (self.source, self.target)


Report = dict[str, Any]
"""Result of a job, with the keys model, model_version, target, lines, translated_here, seconds, lines_per_second,
by_status and reused; terms, terms_kept and share_of_terms_kept if there is a glossary; and made_by if the code changed
during the job. A job that this call finished has watched, drifts, drift and unknown_token_share, see
`translation.watching`, shadow if there is a challenger, and review if lines were written for correction.
"""
_TERMS_SHOWN = 5
"""Most terms with a fault that are shown."""


def translate_pipe(
    request: TranslationRequest,
    settings: Settings,
    warn: Callable[[str], None] = lambda message: None,
    terms: Counter[str] | None = None,
) -> Counter[str]:
    """Translate from standard input, or to standard output, or both.

    Args:
        request: Text to translate, and how.
        settings: Settings of this machine.
        warn: Callback that shows a warning to the user.
        terms: Gets the numbers of terms and of kept terms. None means that they are not counted.

    Returns:
        Number of lines by status.

    Raises:
        NmtError: The model or the text cannot be read.
    """
    from nmt_core.formats.single import Columns, kind_by_name
    from nmt_core.jobs import stream
    from nmt_core.jobs.reading import Pipe
    from nmt_core.jobs.writers import holds_scores
    from nmt_core.translator import Translator

    _require_streams(request)
    _require_no_document(request)
    if request.shadow or request.review:
        option = f"--shadow {request.shadow}" if request.shadow else f"--review {request.review}"
        raise ConfigError(f"{option}: a pipe is no job: name files with --input and --output")
    if request.keep:
        raise ConfigError(
            f"--keep {','.join(request.keep)}: a pipe has no columns: name files with --input and --output"
        )
    with ExitStack() as stack:
        with model_of(request.model, settings) as model:
            search = model.search(request.beam_size, request.long_lines, request.overrides, request.alignments)
            scores = request.target != PIPE and holds_scores(kind_by_name(request.target))
            translator = Translator.load(model.folder, search, settings.threads, scores=scores)
            translator = translator.with_glossary(terms_for(request, model, search, warn))
            translator = translator.into(_pair(request, model)) if _pair(request, model) else translator
        columns = Columns(request.column, request.prefix_column, request.to_column)
        pipe, is_typed = None, request.source == PIPE and sys.stdin.isatty()
        if is_typed:
            cells = stream.typed(sys.stdin.buffer)
        elif request.source == PIPE:
            pipe = Pipe(sys.stdin.buffer)
            cells = stream.piped(pipe, columns)
        else:
            cells = stream.stored(find_inputs(request.source), columns)
        if request.target == PIPE:
            take = stream.to_pipe(stack.enter_context(_standard_output()), search)
        else:
            take = stack.enter_context(stream.to_file(absolute(request.target), search))
        at_once = is_typed or request.line_by_line
        return stream.translate_stream(cells, translator, model.version, take, at_once=at_once, pipe=pipe, terms=terms)


def terms_for(
    request: TranslationRequest, model: Model, search: SearchConfig, warn: Callable[[str], None]
) -> tuple[Term, ...]:
    """Return the terms of the glossary, and warn about those that no translation can have.

    Raises:
        NmtError: A file cannot be read, two terms conflict, or a package is missing.
    """
    if not (request.glossary or request.keep_terms):
        if request.inflected_terms:
            raise ConfigError("--inflected-terms: there is no glossary: give one with --glossary")
        return ()
    from nmt_core.terms.glossary import lemmatiser
    from nmt_core.terms.pieces import TermPieces, faults_of
    from nmt_core.terms.reading import read_terms

    bundle, pair = read_bundle(model.folder), _pair(request, model)
    languages = bundle.languages.of(pair) if pair else bundle.languages
    terms = read_terms(request.glossary, request.keep_terms, languages, inflected=request.inflected_terms)
    if any(term.inflected for term in terms):
        lemmatiser(languages.source)
    tokenizers = read_tokenizers(model.folder, bundle)
    faults = faults_of(terms, TermPieces(tokenizers.target), tokenizers.source, search.max_source_tokens)
    for fault in faults[:_TERMS_SHOWN]:
        warn(f"term {fault}. Lines with it get the status terms_missing")
    if len(faults) > _TERMS_SHOWN:
        warn(f"{len(faults) - _TERMS_SHOWN:,} more terms cannot be written either")
    return terms


def _pair(request: TranslationRequest, model: Model) -> str:
    """Return the pair of languages into which lines are translated that name none.

    It is empty for a model for one pair, and for a model for many if a column names the language of each line.

    Raises:
        ConfigError: the model does not know the language, or knows several and none is named.
    """
    languages = read_bundle(model.folder).languages
    if request.to_column and not request.to:
        return ""
    try:
        return pair_for(languages, request.to)
    except ConfigError as error:
        raise ConfigError(f"--to {request.to}: {error}" if request.to else f"--to is missing: {error}") from None


def _require_no_document(request: TranslationRequest) -> None:
    """Check that neither side of a pipe is a document, which must be complete before it can be read or written."""
    for name, option, other in ((request.source, "--input", "--output"), (request.target, "--output", "--input")):
        if form := format_by_name(name):
            raise ConfigError(
                f"{option} {name}: a {form} document is translated from file to file, not by a pipe: name a file with "
                f"{other} too"
            )


def _require_streams(request: TranslationRequest) -> None:
    """Check that the streams are open and that the target can be written, before the model is loaded."""
    if request.source == PIPE and sys.stdin is None:
        raise DataError("standard input: is closed: name a file with --input, or pipe text into the command")
    if request.target == PIPE and sys.stdout is None:
        raise DataError("standard output: is closed: name a file with --output")
    if request.target != PIPE:
        _require_writable(absolute(request.target))


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    """Yield standard output, and explain why it cannot be written."""
    try:
        yield sys.stdout.buffer
    except BrokenPipeError:
        _forget_output()
        raise StageError("standard output: the program that reads it has ended: the other lines are lost") from None
    except OSError as error:
        if error.filename:  # of a file that was read
            raise
        _forget_output()
        problem = "the disk of its file is full" if error.errno == errno.ENOSPC else words_of(error)
        raise StageError(
            f"standard output: cannot be written ({problem}): free space and start over, or name the file with "
            "--output, so that the job can be resumed"
        ) from None


def _forget_output() -> None:
    """Lead standard output nowhere. Otherwise Python would report the lost text once more when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def translate_job(
    request: TranslationRequest,
    settings: Settings,
    progress: "Progress",
    warn: Callable[[str], None],
    say: Callable[[str], None] | None = None,
) -> Report:
    """Translate files to files, or finish a job that was interrupted.

    Args:
        request: Text to translate, and how.
        settings: Settings of this machine, which determine the workers.
        progress: Callback, see `jobs.pace.Progress`.
        warn: Callback that shows a warning to the user.
        say: Callback that shows a message to the user. None means `warn`.

    Raises:
        NmtError: The model or the text cannot be read, or the folder of the job holds another job.
    """
    from nmt_core.jobs.run import Means, run_job

    target = absolute(request.target)
    folder = JobFolder(absolute(request.job or f"{target}.job"))
    inputs = _inputs(request, target, folder)
    _require_writable(target, as_folder=not inputs.is_one)
    _require_writable_store(folder.url)
    _require_watching(request)
    with model_of(_pinned(request.model, folder), settings) as model, _challenger(request, folder, settings) as other:
        search = model.search(request.beam_size, request.long_lines, request.overrides, request.alignments)
        terms = terms_for(request, model, search, warn)
        order = _order(request, model, inputs, search, terms)
        order = _with_alignments(request, _with_precision(order, model, folder), model)
        order = order.model_copy(update={"shadow": _shadow(request, model, other)})
        with ExitStack() as stack:
            workers, threads = stack.enter_context(workers_of(settings, order.search.precision))
            tracked = stack.enter_context(_tracked(request, model, settings, warn))
            report = tracked.report
            shadow = str(other.folder) if other else ""
            means = Means(
                str(model.folder), threads, workers, progress=progress, say=say or warn, terms=terms, shadow=shadow
            )
            outcome = run_job(JobRequest(request.model, absolute(request.source)), order, folder, means)
            report |= {
                "lines": outcome.done.lines,
                "translated_here": outcome.translated,
                "seconds": round(outcome.seconds, 2),
                "lines_per_second": round(outcome.translated / max(outcome.seconds, 1e-3), 1),
                "by_status": dict(outcome.done.statuses),
                "reused": outcome.reused,
            }
            if terms:
                report |= counts_of_terms(outcome.done.terms, outcome.done.terms_kept)
            if outcome.done.made_by:
                report["made_by"] = dict(outcome.done.made_by)
                warn(f"the code changed during the job: {'; '.join(_made(outcome.done.made_by))}")
            _watch(tracked, outcome, folder, model, settings, warn)
    return report


def _require_watching(request: TranslationRequest) -> None:
    """Check the values of the options about the challenger and about review."""
    if not 0 < request.share <= 1:
        raise ConfigError(f"--share {request.share:g}: must be more than 0 and at most 1")
    if request.review < 0:
        raise ConfigError(f"--review {request.review}: must be 0 or more lines")


@contextmanager
def _challenger(request: TranslationRequest, folder: JobFolder, settings: Settings) -> Iterator[Model | None]:
    """Yield the challenger, or None if there is none.

    An unfinished job keeps the version that it began with, if the same alias was given.
    """
    if not request.shadow:
        yield None
        return
    begun = folder.begun()
    former = begun.order.shadow if begun else None
    address = request.shadow
    if former and former.asked == address and address.startswith("models:/") and address != former.model.name:
        address = f"models:/{former.model.name}/{former.model.version}"
    with model_of(address, settings) as model:
        yield model


def _shadow(request: TranslationRequest, model: Model, other: Model | None) -> Shadow | None:
    """Return the challenger of an order, which searches as it was registered.

    Raises:
        ConfigError: it translates between other languages.
    """
    if not other:
        return None
    from nmt_core.search.onnx_session import device_for

    bundle, own = read_bundle(other.folder), read_bundle(model.folder)
    pairs = [f"{one.languages.source}-{one.languages.target}" for one in (bundle, own)]
    if pairs[0] != pairs[1]:
        raise ConfigError(f"--shadow {request.shadow}: translates {pairs[0]}, and the model {pairs[1]}: name another")
    search = other.search(request.beam_size, request.long_lines)
    precision = precision_for(search.precision, device_for(search.precision, bundle.precisions), bundle)
    search = search.model_copy(update={"precision": precision, "alignments": "none", "n_best": 1})
    return Shadow(asked=request.shadow, model=other.version, search=search, share=request.share)


def _watch(
    tracked: "_Tracked", outcome: "Outcome", folder: JobFolder, model: Model, settings: Settings,
    warn: Callable[[str], None],
) -> None:  # fmt: skip
    """Compare a job that this call has finished with the training text and with earlier jobs."""
    if outcome.reused:
        return
    from flows.registry.shadows import keep_result, shadow_rows
    from flows.translation.watching import PAGE_FILE, watch_job

    title = f"{tracked.report['target']} by {model.version.name} version {model.version.version}"
    watch = watch_job(folder, outcome.done, model.folder, settings, title, warn)
    if watch:
        tracked.report |= watch.report()
        tracked.files[PAGE_FILE] = watch.page
        tracked.files["profile.json"] = watch.profile.model_dump_json()
        tracked.tables["drift.json"] = tracked.report["drift"]
    if shadow := outcome.done.shadow:
        shadow_report = shadow.model_dump(mode="json") | {"in_words": shadow.in_words()}
        tracked.report |= {"shadow": {name: value for name, value in shadow_report.items() if value is not None}}
        tracked.tables["shadow.json"] = shadow_rows(shadow)
        keep_result(settings, outcome.done)
    if outcome.done.review:
        tracked.report |= {"review": outcome.done.review}


def _order(
    request: TranslationRequest, model: Model, inputs: Inputs, search: SearchConfig, terms: tuple[Term, ...]
) -> Order:
    return Order(
        model=model.version,
        search=search,
        inputs=inputs.files,
        target=absolute(request.target),
        into_folder=not inputs.is_one,
        column=request.column,
        prefix_column=request.prefix_column,
        to=_pair(request, model),
        to_column=request.to_column,
        keep=request.keep,
        glossary=GlossaryIdentity(terms=len(terms), sha256=identity_of(terms)) if terms else None,
        review=request.review,
        documents=_documents(request, inputs, model),
    )


def counts_of_terms(terms: int, kept: int) -> Report:
    """Return the part of a report about terms. The share of no terms is 1."""
    return {"terms": terms, "terms_kept": kept, "share_of_terms_kept": round(kept / terms, 4) if terms else 1.0}


def _documents(request: TranslationRequest, inputs: Inputs, model: Model) -> Options | None:
    """Return the options for documents, or None if no input is a document.

    Raises:
        ConfigError: a value is wrong, or options are given without a document.
    """
    if request.redo not in get_args(Redo):
        raise ConfigError(f"--redo {request.redo}: must be none, fuzzy or all")
    if not any(format_by_name(file.name) for file in inputs.files):
        if request.redo != "none" or request.for_review:
            option = "--for-review" if request.for_review else f"--redo {request.redo}"
            raise ConfigError(
                f"{option}: {request.source} is not a document: leave it out, or name a .po, .xlf, .html..."
            )
        return None
    languages, pair = read_bundle(model.folder).languages, _pair(request, model)
    languages = languages.of(pair) if pair else languages
    return Options.model_validate(
        {
            "source_language": languages.source,
            "target_language": languages.target,
            "redo": request.redo,
            "for_review": request.for_review,
        }
    )


def _with_alignments(request: TranslationRequest, order: Order, model: Model) -> Order:
    """Return the order with alignments if they are needed to put the tags of documents into place.

    A model without alignments puts them at the proportional place.
    """
    from nmt_core.jobs.merge import outputs_of

    is_open = order.search.alignments == "none" and not request.alignments
    if not is_open or not any(output.document for output in outputs_of(order)):
        return order
    if not read_bundle(model.folder).has_alignments:
        return order
    return order.model_copy(update={"search": order.search.model_copy(update={"alignments": "words"})})


def _made(chunks: Mapping[str, str]) -> Iterator[str]:
    for maker, numbers in chunks.items():
        yield f"chunks {numbers} by {maker}"


def _inputs(request: TranslationRequest, target: str, folder: JobFolder) -> Inputs:
    """Return the input files.

    If some of them no longer exist but the job has copied their text, return the files that the job began with.
    """
    plan, begun = folder.plan(), folder.begun()
    is_cut = begun and plan and (plan.number, plan.source) == (begun.number, absolute(request.source))
    try:
        files = find_inputs(request.source, (target, folder.url))
    except DataError:
        if not is_cut:
            raise
        files = Inputs((), is_one=False)
    if begun and is_cut and set(files.files) < set(begun.order.inputs):
        return Inputs(begun.order.inputs, not begun.order.into_folder)
    return files


def _pinned(name: str, folder: JobFolder) -> str:
    """Return the version that an unfinished job began with, if the same alias was given, otherwise the given model."""
    begun = folder.begun()
    if not begun or begun.asked != name:
        return name
    model = begun.order.model
    is_by_name = name.startswith("models:/") and name != model.name
    return f"models:/{model.name}/{model.version}" if is_by_name else name


def _with_precision(order: Order, model: Model, folder: JobFolder) -> Order:
    """Return the order with a fixed precision, because workers may have different devices that prefer different ones.

    An unfinished job keeps its precision. A finished job fixes it only for the same job.
    """
    if order.search.precision != "fastest":
        return order
    from nmt_core.search.onnx_session import device_for

    if begun := folder.begun():
        return _in_precision(order, begun.order.search.precision)
    if (plan := folder.plan()) and plan.order == (again := _in_precision(order, plan.order.search.precision)):
        return again
    bundle = read_bundle(model.folder)
    return _in_precision(order, precision_for("fastest", device_for("fastest", bundle.precisions), bundle))


def _in_precision(order: Order, precision: Literal["fastest"] | Precision) -> Order:
    return order.model_copy(update={"search": order.search.model_copy(update={"precision": precision})})


@contextmanager
def workers_of(settings: Settings, precision: str) -> Iterator[tuple[Workers, int]]:
    """Yield the workers that translate in this precision, and the CPU threads of each.

    They are a cluster; or a process for each GPU, if there are several (not yet run on GPUs); or this process, whose
    threads share one model.
    """
    from nmt_core.search.onnx_session import device_for

    if settings.workers != "local":
        from flows.workers.clusters import workers_for

        with workers_for(settings) as workers:
            yield workers, 1
    elif len(settings.gpus) > 1 and device_for(precision, [precision]) == "cuda":
        environments = [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in settings.gpus]
        with LocalWorkers(len(environments), environments) as workers:
            yield workers, max(1, settings.threads // workers.count)
    else:
        yield InProcess(), settings.threads


@dataclass
class _Tracked:
    """Report, files and tables for the MLflow run of a job."""

    report: Report
    files: dict[str, str] = field(default_factory=dict)
    """Texts by the names of their files."""
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of tables by the names of their files. MLflow shows them as tables."""


@contextmanager
def _tracked(
    request: TranslationRequest, model: Model, settings: Settings, warn: Callable[[str], None]
) -> Iterator[_Tracked]:
    """Log an MLflow run around the block, which fills the report."""
    settings.prepare()
    from flows.tracking.mlflow_tracker import Tracker, open_database

    report: Report = {
        "model": model.version.name,
        "model_version": model.version.version,
        "target": absolute(request.target),
    }
    open_database(settings.mlflow_tracking_uri)
    tracker = Tracker(settings.mlflow_tracking_uri, EXPERIMENT, settings.model_files, warn)
    params = report | {"source": request.source, "column": request.column, "prefix_column": request.prefix_column}
    params |= {"to": request.to, "to_column": request.to_column} if request.to or request.to_column else {}
    params |= {"glossary": request.glossary, "keep_terms": request.keep_terms}
    params |= {"shadow": request.shadow, "share": request.share if request.shadow else "", "review": request.review}
    params |= {"beam_size": request.beam_size or "the model's", "overrides": " ".join(request.overrides)}
    run = tracker.start(Path(request.target).name, {"nmt.job": request.job or f"{request.target}.job"}, params)
    error: BaseException | None = None
    tracked = _Tracked(report)
    try:
        yield tracked
        tracker.metrics(run, reports.metrics(report))
        tracker.tables(run, tracked.tables)
        for file, text in tracked.files.items():
            tracker.text(run, text, file)
        tracker.text(run, reports.markdown(f"translated {request.source}", report), "report.md")
    except BaseException as raised:
        error = raised
        raise
    finally:
        tracker.finish(run, status_of(error))
        tracker.close()


def _require_writable(target: str, *, as_folder: bool = False) -> None:
    """Check that the target can be written, before hours of work."""
    path = local_path(target)
    if path is None:
        _require_writable_store(target)
        return
    if path.is_dir() and not as_folder:
        raise DataError(f"{target}: is a folder, but the input is one file: give a file to write")
    if path.exists() and not path.is_dir() and not path.is_file():
        raise DataError(
            f"{target}: is a {_special(path)}, which a job would replace with a file: leave out --output, and redirect "
            f"standard output: > {target}"
        )
    if not path.parent.is_dir():
        raise DataError(
            f"{target}: cannot be written because folder {path.parent} does not exist: create it, or choose another"
        )
    probe = Path(_probe(str(path)))
    try:
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{target}: cannot be written ({error.strerror}): choose a writable folder") from None


def _special(path: Path) -> str:
    return "named pipe" if stat.S_ISFIFO(path.stat().st_mode) else "device"


def _probe(url: str) -> str:
    """Return a unique name, because several workers may begin at once."""
    return f"{url}.probe.{secrets.token_hex(4)}{storage.TEMPORARY}"


def _require_writable_store(url: str) -> None:
    if local_path(url):
        return
    probe = _probe(url)
    try:
        storage.write_bytes([b""], probe)
        storage.remove([probe])
    except NmtError:
        raise
    except Exception as error:  # each kind of store raises its own errors
        raise DataError(
            f"{url}: cannot be written ({words_of(error)}): check the address and your credentials"
        ) from None
