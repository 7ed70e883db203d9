"""Read the text of a job once, from beginning to end, and cut it into chunks.

Chunks are copies. So a worker needs to know neither the place nor the format of the text, nothing is unpacked twice,
and a file that changes while the job runs does no harm.
"""

from collections.abc import Callable, Iterable, Iterator

import polars as pl

from nmt_core.formats.single import Cell, Columns, kind_by_name, read_single
from nmt_core.jobs.folder import Parts
from nmt_core.jobs.inputs import open_input, require_unchanged
from nmt_core.jobs.order import MAX_LINE_BYTES, Chunk, Order
from nmt_core.store import storage

SCHEMA = {"text": pl.String, "fault": pl.String, "raw": pl.Binary, "prefix": pl.String}
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
        with open_input(file) as stream:
            columns = Columns(order.column, order.prefix_column)
            cells = read_single(stream, kind_by_name(file.name), columns, MAX_LINE_BYTES)
            for group in cut(cells, order.chunk_lines, order.chunk_characters):
                if len(chunks) not in there:
                    require_unchanged(file)  # no chunk may hold text that changed while it was read
                    _write(group, parts.input(len(chunks)))
                chunks.append(Chunk(file=place, first=first, lines=len(group)))
                first += len(group)
                rows += len(group)
                on_rows(rows)
    return tuple(chunks)


def cut(cells: Iterable[Cell], most: int, characters: int) -> Iterator[list[Cell]]:
    """Yield groups of at most `most` rows. A row that brings its group to `characters`, with prefixes, ends it."""
    group: list[Cell] = []
    size = 0
    for cell in cells:
        group.append(cell)
        size += len(cell.text) + len(cell.prefix)
        if len(group) == most or size >= characters:
            yield group
            group, size = [], 0
    if group:
        yield group


def _write(group: list[Cell], url: str) -> None:
    with storage.published(url) as file:
        pl.DataFrame(group, schema=SCHEMA, orient="row").write_parquet(file, compression="zstd", compression_level=3)
