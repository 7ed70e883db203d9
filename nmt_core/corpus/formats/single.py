"""Text of one language in any of the formats of lines and tables: a row for each line or record, none left out."""

import json
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

import polars as pl

from nmt_core.corpus.formats import parquet
from nmt_core.corpus.formats.columns import find_column
from nmt_core.corpus.formats.delimited import Records, delimiter_of
from nmt_core.corpus.formats.jsonl import INVALID_JSON, is_unicode, paths_of, text_at
from nmt_core.corpus.formats.kinds import Kind, data_name
from nmt_core.corpus.formats.lines import read_lines
from nmt_core.corpus.formats.rows import INVALID_UTF8, MISSING_COLUMN, NULL_BYTE, Row
from nmt_core.corpus.formats.streams import ByteStream
from nmt_core.errors import DataError


class Cell(NamedTuple):
    """One row."""

    text: str
    """Of a row with a fault, what can be shown of it."""
    fault: str | None = None
    """Why there is no text."""
    raw: bytes | None = None
    """The whole line, where it is not UTF-8."""


_KINDS = {
    ".tsv": Kind.TSV,
    ".tab": Kind.TSV,
    ".csv": Kind.CSV,
    ".jsonl": Kind.JSONL,
    ".ndjson": Kind.JSONL,
    ".json": Kind.JSONL,
    ".parquet": Kind.PARQUET,
}
# All of each mark: a text may well begin with the letters of one.
_PARQUET = b"PAR1\x15"
_NO_LINES = {b"PK\x03\x04": "a zip archive", b"7z\xbc\xaf\x27\x1c": "a 7z archive", b"Rar!\x1a\x07": "a RAR archive"}


def kind_by_name(name: str) -> Kind:
    """What a file is by its suffix, that of its packing left aside: any that is not a table's means lines."""
    return _KINDS.get(PurePosixPath(data_name(name)).suffix.casefold(), Kind.LINES)


def read_single(stream: ByteStream, kind: Kind, column: str, max_line_bytes: int) -> Iterator[Cell]:
    """The rows of a file. A file may be empty.

    Args:
        stream: the file.
        kind: LINES, TSV, CSV, JSONL or PARQUET; what is called lines and is Parquet is read as that.
        column: name of the column of a table, or its number from 1 in a table without a header; empty: `source` or
            `text`, whichever there is.
        max_line_bytes: a longer line or cell is a row with a fault.

    Raises:
        DataError: the file is truncated or damaged, is no text, or has no such column; some rows may have come before.
    """
    if stream.peek(8).startswith(_PARQUET):
        kind = Kind.PARQUET
    elif not stream.peek(1):
        return
    if kind is Kind.PARQUET:
        yield from _cells(parquet.read_column(stream, column, max_line_bytes))
        return
    what = next((what for magic, what in _NO_LINES.items() if stream.peek(8).startswith(magic)), None)
    if what:
        raise DataError(f"{stream.name}: {what}, and not text: unpack or convert it, and name the text inside")
    if kind is Kind.LINES and column:
        raise DataError(f"{stream.name}: a text without columns: leave out --column, or name a .tsv, .csv, .jsonl...")
    readers: dict[Kind, Callable[[ByteStream, str, int], Iterator[Cell]]]
    readers = {Kind.LINES: _lines, Kind.TSV: _tsv, Kind.CSV: _csv, Kind.JSONL: _jsonl}
    yield from readers[kind](stream, column, max_line_bytes)


def has_header(column: str) -> bool:
    """Whether the first row of a TSV or CSV file holds the names of its columns: a number says that it does not."""
    return not column.isdecimal()


def _cells(tables: Iterator[pl.DataFrame]) -> Iterator[Cell]:
    """A NUL is no fault here: like other characters that cannot be seen, it is taken out before translation."""
    for table in tables:
        for text, fault, _, raw in table.select("text", "fault", "value", "raw").iter_rows():
            yield Cell(text, None if fault == NULL_BYTE else fault, raw)


def _lines(stream: ByteStream, column: str, max_line_bytes: int) -> Iterator[Cell]:
    return _cells(read_lines(stream, max_line_bytes, with_bytes=True))


def _tsv(stream: ByteStream, column: str, max_line_bytes: int) -> Iterator[Cell]:
    place = None if has_header(column) else int(column) - 1
    for cell in _lines(stream, column, max_line_bytes):
        fields = cell.text.split("\t")
        if place is None:
            place = find_column(fields, column, stream.name)
        elif cell.fault:
            yield cell
        elif place < len(fields):
            yield Cell(fields[place])
        else:
            yield Cell(cell.text, MISSING_COLUMN)


def _csv(stream: ByteStream, column: str, max_line_bytes: int) -> Iterator[Cell]:
    records = Records(stream, max_line_bytes, delimiter_of(stream, max_line_bytes))
    place = None if has_header(column) else int(column) - 1
    for record in records:
        if isinstance(record, Row):
            yield Cell(record.source, record.fault, records.raw)
            continue
        fields = record or [""]  # an empty line
        if place is None:
            place = find_column(fields, column, stream.name)
        elif place < len(fields):
            yield Cell(fields[place])
        else:
            yield Cell(",".join(fields), MISSING_COLUMN)


def _jsonl(stream: ByteStream, column: str, max_line_bytes: int) -> Iterator[Cell]:
    path: tuple[str, ...] = ()
    for cell in _lines(stream, column, max_line_bytes):
        if cell.fault:
            yield cell
            continue
        try:
            record = json.loads(cell.text)
            paths = list(paths_of(record)) if not path and isinstance(record, dict) else []
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            yield Cell(cell.text, INVALID_JSON)
            continue
        if not path:
            path = paths[find_column([".".join(names) for names in paths], column, stream.name)]
        text, fault = text_at(path, record)
        if not fault and not is_unicode([text]):
            fault = INVALID_UTF8
        yield Cell(cell.text if fault else text, fault)
