"""Text of one language in any of the formats of lines and tables: a row for each line or record, none left out."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import polars as pl

from nmt_core.corpus.formats import parquet
from nmt_core.corpus.formats.columns import find_column
from nmt_core.corpus.formats.delimited import Records, delimiter_of
from nmt_core.corpus.formats.jsonl import INVALID_JSON, NO_TEXT, is_unicode, paths_of, text_at
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
    prefix: str = ""
    """With what its translation has to begin, if a column says so."""


class Columns(NamedTuple):
    """Columns of a table, by their names, or by their numbers from 1 in a table without a header."""

    text: str
    """Of the text; empty: `source` or `text`, whichever there is."""
    prefix: str = ""
    """Of what translations have to begin with; empty: there is none."""

    def numbered(self, place: str) -> list[int] | None:
        """Places of the columns, from 0; None: they have names.

        Raises:
            DataError: one has a number, and the other a name.
        """
        if has_header(self.text):
            return None
        if self.prefix and has_header(self.prefix):
            raise DataError(
                f"{place}: --column {self.text} is a number, and --prefix-column {self.prefix} is not: give numbers "
                "for both, or names for both"
            )
        return [int(asked) - 1 for asked in self if asked]

    def find(self, names: Sequence[str], place: str) -> list[int]:
        """Places of the columns among all that there are; see `find_column`."""
        prefix = [find_column(names, self.prefix, place, "--prefix-column")] if self.prefix else []
        return [find_column(names, self.text, place), *prefix]


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


def read_single(stream: ByteStream, kind: Kind, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    """The rows of a file. A file may be empty.

    Args:
        stream: the file.
        kind: LINES, TSV, CSV, JSONL or PARQUET; what is called lines and is Parquet is read as that.
        columns: those of a table; lines have none.
        max_line_bytes: a longer line or cell is a row with a fault.

    Raises:
        DataError: the file is truncated or damaged, is no text, or has no such column; some rows may have come before.
    """
    if stream.peek(8).startswith(_PARQUET):
        kind = Kind.PARQUET
    elif not stream.peek(1):
        return
    if kind is Kind.PARQUET:
        yield from _cells(parquet.read_columns(stream, columns.find, max_line_bytes))
        return
    what = next((what for magic, what in _NO_LINES.items() if stream.peek(8).startswith(magic)), None)
    if what:
        raise DataError(f"{stream.name}: {what}, and not text: unpack or convert it, and name the text inside")
    if kind is Kind.LINES and any(columns):
        option = "--column" if columns.text else "--prefix-column"
        raise DataError(f"{stream.name}: a text without columns: leave out {option}, or name a .tsv, .csv, .jsonl...")
    readers: dict[Kind, Callable[[ByteStream, Columns, int], Iterator[Cell]]]
    readers = {Kind.LINES: _lines, Kind.TSV: _tsv, Kind.CSV: _csv, Kind.JSONL: _jsonl}
    yield from readers[kind](stream, columns, max_line_bytes)


def has_header(column: str) -> bool:
    """Whether the first row of a TSV or CSV file holds the names of its columns: a number says that it does not."""
    return not column.isdecimal()


def _cells(tables: Iterator[pl.DataFrame]) -> Iterator[Cell]:
    """A NUL is no fault here: like other characters that cannot be seen, it is taken out before translation."""
    for table in tables:
        prefixes = table["prefix"] if "prefix" in table.columns else repeat("", table.height)
        rows = zip(table.select("text", "fault", "raw").iter_rows(), prefixes, strict=True)
        for (text, fault, raw), prefix in rows:
            yield Cell(text, None if fault == NULL_BYTE else fault, raw, prefix)


def _cell(fields: Sequence[str], places: Sequence[int], shown: str) -> Cell:
    """A row of a table with these fields; one that is too short for its prefix has none."""
    text, *prefix = places
    if text >= len(fields):
        return Cell(shown, MISSING_COLUMN)
    return Cell(fields[text], prefix=next((fields[place] for place in prefix if place < len(fields)), ""))


def _lines(stream: ByteStream, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    return _cells(read_lines(stream, max_line_bytes, with_bytes=True))


def _tsv(stream: ByteStream, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    places = columns.numbered(stream.name)
    for cell in _lines(stream, columns, max_line_bytes):
        fields = cell.text.split("\t")
        if places is None:
            places = columns.find(fields, stream.name)
        elif cell.fault:
            yield cell
        else:
            yield _cell(fields, places, cell.text)


def _csv(stream: ByteStream, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    records = Records(stream, max_line_bytes, delimiter_of(stream, max_line_bytes))
    places = columns.numbered(stream.name)
    for record in records:
        if isinstance(record, Row):
            yield Cell(record.source, record.fault, records.raw)
            continue
        fields = record or [""]  # an empty line
        if places is None:
            places = columns.find(fields, stream.name)
        else:
            yield _cell(fields, places, ",".join(fields))


def _jsonl(stream: ByteStream, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    places: list[tuple[str, ...]] = []
    for cell in _lines(stream, columns, max_line_bytes):
        if cell.fault:
            yield cell
            continue
        try:
            record = json.loads(cell.text)
            paths = list(paths_of(record)) if not places and isinstance(record, dict) else []
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            yield Cell(cell.text, INVALID_JSON)
            continue
        if not places:
            places = [paths[place] for place in columns.find([".".join(names) for names in paths], stream.name)]
        yield _object(record, places, cell.text)


def _object(record: dict[str, Any], places: Sequence[tuple[str, ...]], line: str) -> Cell:
    """A row of JSON; where there is no prefix, or null, the translation is free."""
    (text, fault), *found = (text_at(place, record) for place in places)
    prefix, prefix_fault = next(iter(found), ("", None))
    if prefix_fault == NO_TEXT:
        fault = fault or NO_TEXT
    if not fault and not is_unicode([text, prefix]):
        fault = INVALID_UTF8
    return Cell(line, fault) if fault else Cell(text, prefix=prefix)
