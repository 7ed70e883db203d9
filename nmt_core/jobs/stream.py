"""Translate text from or to a pipe, or from a keyboard: at once, and without a job that could be resumed."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import polars as pl

from nmt_core.config import SearchConfig
from nmt_core.formats import Kind
from nmt_core.formats.kinds import packing_by_name
from nmt_core.formats.rows import INVALID_UTF8
from nmt_core.formats.single import Cell, Columns, kind_by_name
from nmt_core.formats.streams import unpacked
from nmt_core.jobs.chunk import JUDGE_PROBLEM, TERMS, TOKENS, translate_rows
from nmt_core.jobs.inputs import Inputs, open_input
from nmt_core.jobs.merge import table
from nmt_core.jobs.order import ModelVersion, Order
from nmt_core.jobs.reading import STANDARD_INPUT, Pipe, PipeStream, cells_of
from nmt_core.jobs.staging import SCHEMA, Groups
from nmt_core.jobs.unreadable import Origin, noting
from nmt_core.jobs.writers import one_line, require_output_for, writing
from nmt_core.translator import Translator

Take = Callable[[pl.DataFrame, pl.DataFrame], None]
"""Callback that gets rows of the input (`staging.SCHEMA`) and the same rows of the output (`merge.table`)."""

_LINES: int = Order.model_fields["chunk_lines"].default
_CHARACTERS: int = Order.model_fields["chunk_characters"].default


def translate_stream(
    cells: Iterable[Cell],
    translator: Translator,
    model: ModelVersion,
    take: Take,
    *,
    at_once: bool = False,
    pipe: Pipe | None = None,
    terms: Counter[str] | None = None,
    not_judged: Counter[str] | None = None,
) -> Counter[str]:
    """Translate rows and pass them to `take`.

    Args:
        cells: the rows.
        translator: the model.
        model: name and version of the model.
        take: function that gets each group of rows.
        at_once: True translates each row before the next one is read.
        pipe: pipe from which the rows are read. What has been read is translated as soon as nothing more has arrived.
        terms: gets the numbers of terms and of kept terms (`chunk.TERMS`). None means that they are not counted.
        not_judged: gets the number of lines for which the judge of the search did not choose, by the reason. None means
            that they are not counted.

    Returns:
        The number of rows for each status.
    """
    statuses: Counter[str] = Counter()

    def translate_group(group: list[Cell]) -> None:
        rows = pl.DataFrame(group, schema=SCHEMA, orient="row")
        done = translate_rows(rows, translator)
        statuses.update(done["status"].to_list())
        if terms is not None and translator.has_terms:
            terms.update({name: int(done[name].sum()) for name in TERMS})
        if not_judged is not None and JUDGE_PROBLEM in done.columns:
            not_judged.update(done[JUDGE_PROBLEM].drop_nulls().to_list())
        take(rows, table(rows, done.drop(TOKENS, JUDGE_PROBLEM, *TERMS, strict=False), model))

    groups = Groups(1 if at_once else _LINES, _CHARACTERS, translate_group)
    if pipe:
        pipe.on_wait = groups.end
    for cell in cells:
        groups.add(cell)
    groups.end()
    return statuses


def typed(lines: Iterable[bytes]) -> Iterator[Cell]:
    """Yield lines typed by a user who waits for each translation."""
    for line in lines:
        try:
            yield Cell(line.decode().removesuffix("\n"))
        except UnicodeDecodeError:
            yield Cell(line.decode("utf-8", "replace"), INVALID_UTF8, line.removesuffix(b"\n"))


def piped(pipe: Pipe, columns: Columns) -> Iterator[Cell]:
    """Yield lines of a pipe, unpacked if they are packed."""
    return cells_of(unpacked(PipeStream(pipe)), Kind.LINES, columns)


def stored(inputs: Inputs, columns: Columns) -> Iterator[Cell]:
    """Yield rows of files, one file after the other."""
    for file in inputs.files:
        with open_input(file) as stream:
            yield from cells_of(stream, kind_by_name(file.name), columns)


def to_pipe(target: BinaryIO, search: SearchConfig) -> Take:
    """Return a function that writes translations to a pipe at once, one on each line, with alignments after a tab.

    Bytes of lines that are not UTF-8 are not kept.

    Raises:
        ConfigError: the search returns several translations of a line, or alignments of pieces.
    """
    require_output_for(search, Kind.LINES, "standard output")
    columns = ["translation", "alignment"] if search.alignments != "none" else ["translation"]

    def take(_: pl.DataFrame, rows: pl.DataFrame) -> None:
        target.write("".join("\t".join(map(one_line, row)) + "\n" for row in rows.select(columns).iter_rows()).encode())
        target.flush()

    return take


@contextlib.contextmanager
def to_file(target: str, search: SearchConfig) -> Iterator[Take]:
    """Yield a function that writes a file in the format of its suffix, from rows of standard input.

    Bytes of lines that are not UTF-8 go to a file beside it.
    """
    kind, first = kind_by_name(target), 0
    with writing(target, kind, packing_by_name(target), search, header=True) as write, noting(target) as note:

        def take(read: pl.DataFrame, rows: pl.DataFrame) -> None:
            nonlocal first
            write(rows)
            note(read, Origin(STANDARD_INPUT, Kind.LINES, first=first))
            first += rows.height

        yield take
