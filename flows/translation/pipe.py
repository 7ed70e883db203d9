"""Translation of text from standard input, or to standard output, as a stream that ends with it."""

import errno
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, BinaryIO

from flows.registry.models import model_of
from flows.settings import Settings
from flows.translation.request import PIPE, TranslationRequest, not_judged_warning, pair_of, search_of, terms_for
from flows.translation.targets import require_writable
from nmt_core.config import SearchConfig
from nmt_core.documents.opening import format_by_name
from nmt_core.errors import ConfigError, DataError, StageError, words_of
from nmt_core.jobs.inputs import absolute, find_inputs

if TYPE_CHECKING:
    from nmt_core.translator import Translator


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
            search = search_of(request, model, settings)
            scores = request.target != PIPE and holds_scores(kind_by_name(request.target))
            translator = Translator.load(model.folder, search, settings.threads, scores=scores)
            translator = translator.with_glossary(terms_for(request, model, search, warn))
            translator = translator.into(pair_of(request, model)) if pair_of(request, model) else translator
            translator = _with_judge(translator, search)
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
        not_judged = Counter[str]()
        statuses = stream.translate_stream(
            cells, translator, model.version, take, at_once=at_once, pipe=pipe, terms=terms, not_judged=not_judged
        )
        if not_judged:
            warn(not_judged_warning(not_judged.total(), statuses.total(), next(iter(not_judged))))
        return statuses


def _with_judge(translator: "Translator", search: SearchConfig) -> "Translator":
    if not search.judge:
        return translator
    from nmt_core.judges.reranking import with_its_judge

    return with_its_judge(translator)


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
        require_writable(absolute(request.target))


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
