"""Read one side of text in any format: lines, tables, parallel text, and archives of them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import polars as pl

from nmt_core.errors import DataError
from nmt_core.formats import testsets
from nmt_core.formats.archives import open_members, select
from nmt_core.formats.charsets import decoded
from nmt_core.formats.kinds import ARCHIVES, Kind, kind_alone
from nmt_core.formats.layout import Layout, TextFile
from nmt_core.formats.lines import read_lines
from nmt_core.formats.reader import READERS
from nmt_core.formats.rows import FRAME_ROWS, SIDE_SCHEMA, checked
from nmt_core.formats.single import Cell, Columns, read_single
from nmt_core.formats.streams import ByteStream, open_file

_TABLES = (Kind.TSV, Kind.CSV, Kind.JSON, Kind.JSONL, Kind.PARQUET, Kind.XLSX)
_ROWS_AT_A_TIME = 10_000


def read_side(files: Sequence[tuple[TextFile, str]], layout: Layout, column: str = "") -> Iterator[pl.DataFrame]:
    """Read the sentences of one side as a stream of tables.

    Args:
        files: files, each with the name that its owner gave it. All have the same side.
        layout: languages, and the longest line.
        column: column of a table. Empty means `text` or `source`.

    Returns:
        Tables with the columns source, target, line, fault and value, as `formats.read` returns them. The other side is
        empty.

    Raises:
        DataError: a file is missing, empty, damaged or of the wrong kind. Some rows may have been yielded before.
    """
    lines = 0
    for file, name in files:
        other = "target" if file.side == "source" else "source"
        for table in _tables(file, name, layout, column):
            for start in range(0, table.height, FRAME_ROWS):
                part = table.slice(start, FRAME_ROWS)
                numbers = pl.int_range(lines + 1, lines + part.height + 1, dtype=pl.Int64, eager=True).alias("line")
                named = part.with_columns(numbers, pl.lit("").alias(other), pl.col("text").alias(file.side))
                yield named.select("source", "target", "line", "fault", "value")
                lines += part.height


def _tables(file: TextFile, name: str, layout: Layout, column: str) -> Iterator[pl.DataFrame]:
    with open_file(file.path) as packed:
        stream = decoded(packed, layout.encoding)
        kind = kind_alone(stream, name)
        if kind not in ARCHIVES:
            yield from _text(stream, kind, file, layout, column)
            return
    (members,) = select(file, kind, layout)
    for packed in open_members(members):
        member = decoded(packed, layout.encoding)
        inner = kind_alone(member, member.name)
        if inner in ARCHIVES:
            raise DataError(
                f"{member.name}: an archive inside an archive: unpack the outer one, and name the inner one"
            )
        yield from _text(member, inner, file, layout, column)


def _text(stream: ByteStream, kind: Kind, file: TextFile, layout: Layout, column: str) -> Iterator[pl.DataFrame]:
    if kind in _TABLES:
        yield from _rows(read_single(stream, kind, Columns(column), layout.max_line_bytes), layout.max_line_bytes)
    elif column:
        raise DataError(f"{stream.name}: a text without columns: leave out the column, or name a table")
    elif kind is Kind.SGM:
        yield from testsets.read_sgm(stream, layout.max_line_bytes)
    elif kind is Kind.LINES:
        yield from read_lines(stream, layout.max_line_bytes)
    else:
        for pairs in READERS[kind](stream, layout):
            yield pairs.select(pl.col(file.side).alias("text"), "fault", "value")


def _rows(cells: Iterable[Cell], max_line_bytes: int) -> Iterator[pl.DataFrame]:
    remaining = iter(cells)
    while taken := list(islice(remaining, _ROWS_AT_A_TIME)):
        rows = [(cell.text, cell.fault, None) for cell in taken]
        yield checked(pl.DataFrame(rows, schema=SIDE_SCHEMA, orient="row"), max_line_bytes)
