"""Read the text of a job once, from beginning to end, and cut it into chunks.

Chunks are copies. So a worker needs to know neither the place nor the format of the text, nothing is unpacked twice,
and a file that changes while the job runs does no harm.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.documents.opening import format_by_name
from nmt_core.formats.single import Cell, Columns, kind_by_name
from nmt_core.jobs.documents import document_cells
from nmt_core.jobs.folder import Parts
from nmt_core.jobs.inputs import open_input, require_unchanged
from nmt_core.jobs.kept_columns import kept_reader
from nmt_core.jobs.order import Chunk, Order
from nmt_core.jobs.reading import cells_of
from nmt_core.store import storage

SCHEMA = {"text": pl.String, "fault": pl.String, "raw": pl.Binary, "prefix": pl.String, "to": pl.String}
"""Columns of a chunk's rows. See `formats.single.Cell`."""


def stage(order: Order, parts: Parts, on_rows: Callable[[int], None]) -> tuple[Chunk, ...]:
    """Cut the text into chunks. Keep chunks that an earlier attempt has written.

    Args:
        order: the inputs to read, and the sizes of chunks.
        parts: the paths of the chunks.
        on_rows: called after each chunk with the number of rows so far.

    Raises:
        DataError: a file cannot be read, has no such column, or has changed.
    """
    there = parts.staged()
    chunks: list[Chunk] = []
    rows = 0
    for place, file in enumerate(order.inputs):
        first = 0
        columns = Columns(order.column, order.prefix_column, order.to_column)
        with ExitStack() as stack:
            stream = stack.enter_context(open_input(file))
            form = format_by_name(file.name)
            has_kept = order.keep and not form
            kept = stack.enter_context(kept_reader(file, columns, order.keep)) if has_kept else None
            if form:
                cells = document_cells(stream, form, order, columns, parts.document(place))
            else:
                cells = cells_of(stream, kind_by_name(file.name), columns)
            for group in cut(cells, order.chunk_lines, order.chunk_characters):
                others = kept.take(len(group)) if kept else None
                if len(chunks) not in there:
                    require_unchanged(file)  # no chunk may hold text that changed while it was read
                    if others is not None:
                        _write_kept(others, parts.kept(len(chunks)))
                    _write(group, parts.input(len(chunks)))
                chunks.append(Chunk(file=place, first=first, lines=len(group)))
                first += len(group)
                rows += len(group)
                on_rows(rows)
            if kept:
                kept.end()
    return tuple(chunks)


def cut(cells: Iterable[Cell], most: int, characters: int) -> Iterator[list[Cell]]:
    """Yield groups of rows, see `Groups`."""
    ready: list[list[Cell]] = []
    groups = Groups(most, characters, ready.append)
    for cell in cells:
        groups.add(cell)
        if ready:
            yield ready.pop()
    groups.end()
    yield from ready


class Groups:
    """Groups of at most `most` rows. A row that brings its group to `characters`, with prefixes, ends it.

    Args:
        most: greatest number of rows of a group.
        characters: number of characters at which a group ends.
        take: function that gets each group.
    """

    def __init__(self, most: int, characters: int, take: Callable[[list[Cell]], None]) -> None:
        self._most, self._characters, self._take = most, characters, take
        self._group: list[Cell] = []
        self._size = 0

    def add(self, cell: Cell) -> None:
        """Add a row."""
        self._group.append(cell)
        self._size += len(cell.text) + len(cell.prefix)
        if len(self._group) == self._most or self._size >= self._characters:
            self.end()

    def end(self) -> None:
        """End the group, unless it is empty."""
        group, self._group, self._size = self._group, [], 0
        if group:
            self._take(group)


def _write_kept(rows: pa.Table, url: str) -> None:
    with storage.published(url) as file:
        pq.write_table(rows, file, compression="zstd")


def _write(group: list[Cell], url: str) -> None:
    with storage.published(url) as file:
        pl.DataFrame(group, schema=SCHEMA, orient="row").write_parquet(file, compression="zstd", compression_level=3)
