"""Translation of files to files as a job that can be resumed. It needs no Prefect, and logs totals to MLflow."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from flows.display import reports
from flows.registry.models import Model, model_of, pinned
from flows.runs.summary import status_of
from flows.settings import Settings
from flows.translation.challenger import challenger_of, require_watching, shadow_of
from flows.translation.request import TranslationRequest, not_judged_warning, pair_of, search_of, terms_for
from flows.translation.targets import require_writable, require_writable_store
from nmt_core.bundle.folder import precision_for, read_bundle
from nmt_core.config import Precision, SearchConfig
from nmt_core.documents.document import Options, Redo
from nmt_core.documents.opening import format_by_name
from nmt_core.errors import ConfigError, DataError
from nmt_core.execution.pool import InProcess, LocalWorkers, Workers
from nmt_core.jobs.folder import JobFolder
from nmt_core.jobs.inputs import Inputs, absolute, find_inputs
from nmt_core.jobs.order import GlossaryIdentity, JobRequest, Order
from nmt_core.terms.glossary import Term, identity_of

if TYPE_CHECKING:
    from nmt_core.jobs.pace import Progress
    from nmt_core.jobs.run import Outcome

EXPERIMENT = "translate"
"""Name of the MLflow experiment."""
Report = dict[str, Any]
"""Result of a job, with the keys model, model_version, target, lines, translated_here, seconds, lines_per_second,
by_status and reused; terms, terms_kept and share_of_terms_kept if there is a glossary; not_judged if a judge chooses
among candidates; and made_by if the code changed during the job. A job that this call finished has watched, drifts,
drift and unknown_token_share, see `translation.watching`, shadow if there is a challenger, and review if lines were
written for correction.
"""


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
    require_writable(target, as_folder=not inputs.is_one)
    require_writable_store(folder.url)
    require_watching(request)
    address = _address(request.model, folder)
    with model_of(address, settings) as model, challenger_of(request, folder, settings) as other:
        search = search_of(request, model, settings)
        terms = terms_for(request, model, search, warn)
        order = _order(request, model, inputs, search, terms)
        order = _with_alignments(request, _with_precision(order, model, folder), model)
        order = order.model_copy(update={"shadow": shadow_of(request, model, other)})
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
                report |= _counts_of_terms(outcome.done.terms, outcome.done.terms_kept)
            if order.search.judge:
                report["not_judged"] = outcome.done.not_judged
            if outcome.done.not_judged:
                warn(not_judged_warning(outcome.done.not_judged, outcome.done.lines, outcome.done.judge_problem))
            if outcome.done.made_by:
                report["made_by"] = dict(outcome.done.made_by)
                warn(f"the code changed during the job: {'; '.join(_made(outcome.done.made_by))}")
            _watch(tracked, outcome, folder, model, settings, warn)
    return report


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
        if problem := keep_result(settings, outcome.done):
            warn(f"the comparison with the challenger is not kept for the gate ({problem}): make room in NMT_HOME")
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
        to=pair_of(request, model),
        to_column=request.to_column,
        keep=request.keep,
        judge_files=_judge_files(search),
        glossary=GlossaryIdentity(terms=len(terms), sha256=identity_of(terms)) if terms else None,
        review=request.review,
        documents=_documents(request, inputs, model),
    )


def _judge_files(search: SearchConfig) -> dict[str, str]:
    if not search.judge:
        return {}
    from nmt_core.judges.files import contents_of_judge

    return contents_of_judge(search)


def _counts_of_terms(terms: int, kept: int) -> Report:
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
    languages, pair = read_bundle(model.folder).languages, pair_of(request, model)
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


def _address(name: str, folder: JobFolder) -> str:
    """Return the address of the model. An unfinished job keeps its version."""
    begun = folder.begun()
    return pinned(name, begun.asked, begun.order.model) if begun else name


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
