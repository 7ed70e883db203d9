"""Read text in one language from lines and tables: a row for each line or record, with none left out."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import polars as pl

from nmt_core.errors import DataError
from nmt_core.formats import json_file, parquet, spreadsheets
from nmt_core.formats.columns import NoColumnError, Sought, find_column
from nmt_core.formats.delimited import delimiter_of, names_in, records_of
from nmt_core.formats.jsonl import INVALID_JSON, NO_TEXT, Path, is_unicode, names_of, paths_of, text_at
from nmt_core.formats.kinds import Kind, data_name
from nmt_core.formats.lines import read_lines
from nmt_core.formats.rows import INVALID_UTF8, MISSING_COLUMN, NULL_BYTE, Row
from nmt_core.formats.streams import ByteStream


class Cell(NamedTuple):
    """One row of a file."""

    text: str
    """Text of the row, or the part that can be shown if the row has a fault."""
    fault: str | None = None
    """Reason why the row has no text."""
    raw: bytes | None = None
    """Bytes of the whole line if it is not UTF-8."""
    prefix: str = ""
    """Text with which the translation must begin, if a column holds it."""
    to: str = ""
    """Target language, or pair of languages, of the row, if a column holds it."""


_OPTIONS = {"prefix": "--prefix-column", "to": "--to-column"}


class Columns(NamedTuple):
    """Columns of a table, by name, or by number from 1 in a table without a header."""

    text: str
    """Column of the text. Empty means `source` or `text`, whichever exists."""
    prefix: str = ""
    """Column of the prefixes with which translations must begin. Empty means none."""
    to: str = ""
    """Column of the target languages. Empty means none."""

    def numbered(self, place: str) -> list[int] | None:
        """Return the indexes of the columns, from 0, or None if the columns have names.

        Raises:
            DataError: one column is a number and the other a name, or a number is 0.
        """
        if has_header(self.text):
            return None
        for column, option in self.asked:
            if has_header(column):
                raise DataError(
                    f"{place}: --column {self.text} is a number, and {option} {column} is not: give numbers for both, "
                    "or names for both"
                )
        for column, option in self.asked:
            if not int(column):
                raise DataError(f"{place}: no column {column}: columns count from 1; give {option} 1 for the first")
        return [int(column) - 1 for column, _ in self.asked]

    @property
    def asked(self) -> list[tuple[str, str]]:
        """The requested columns, each with its option: the text, and then `further` ones."""
        return [(self.text, "--column"), *((getattr(self, name), _OPTIONS[name]) for name in self.further)]

    @property
    def further(self) -> list[str]:
        """Fields of a `Cell` that other columns than the column of the text hold."""
        return [name for name in _OPTIONS if getattr(self, name)]

    def cell(self, text: str, values: Sequence[str]) -> Cell:
        """Return a row, given its text and the values of its `further` columns."""
        named = dict(zip(self.further, values, strict=True))
        return Cell(text, prefix=named.get("prefix", ""), to=named.get("to", ""))

    def find(self, names: Sequence[str], place: str) -> list[int]:
        """Return the indexes of the columns among all names (see `find_column`)."""
        return [find_column(names, column, place, option) for column, option in self.asked]


_KINDS = {
    ".tsv": Kind.TSV,
    ".tab": Kind.TSV,
    ".csv": Kind.CSV,
    ".jsonl": Kind.JSONL,
    ".ndjson": Kind.JSONL,
    ".json": Kind.JSONL,
    ".parquet": Kind.PARQUET,
}
# The complete marks: plain text may begin with the letters of one.
_PARQUET = b"PAR1\x15"
_NO_LINES = {
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "a document of an old Office program",
    b"\x89PNG\r\n\x1a\n": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"\x7fELF": "a program",
    b"SQLite format 3\0": "a database",
}
_NO_LINES_BY_MORE = {
    re.compile(rb"%PDF-\d\.\d\s+%[\x80-\xff]{4}"): "a PDF document",
    re.compile(rb"\{\\rtf1\\(?:ansi|mac|pc|adeflang|deff)"): "an RTF document",
}
_MARK_BYTES = 64


def kind_by_name(name: str) -> Kind:
    """Return the format that the suffix names, ignoring the packing. Any suffix that is not a table's means lines."""
    return _KINDS.get(PurePosixPath(data_name(name)).suffix.casefold(), Kind.LINES)


def read_single(stream: ByteStream, kind: Kind, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    """Yield the rows of a file, which may be empty.

    Args:
        stream: the file.
        kind: LINES, TSV, CSV, JSON, JSONL, PARQUET or XLSX. A file called lines whose content is Parquet is read
            as Parquet.
        columns: the columns of a table. Lines have none.
        max_line_bytes: the longest line or cell, in bytes. A longer one becomes a row with a fault.

    Raises:
        DataError: the file is truncated or damaged, is not text, or has no such column. Where each row lists its own
            columns, one of the first `columns.ROWS_LOOKED_AT` must have it. Some rows may have been yielded before.
    """
    if stream.peek(8).startswith(_PARQUET):
        kind = Kind.PARQUET
    elif not stream.peek(1):
        return
    if kind is Kind.PARQUET:
        yield from _cells(parquet.read_columns(stream, columns.find, max_line_bytes, columns.further))
        return
    if kind is Kind.XLSX:
        yield from _workbook(stream, columns)
        return
    head = stream.peek(_MARK_BYTES)[:_MARK_BYTES]
    what = next((what for magic, what in _NO_LINES.items() if head.startswith(magic)), "")
    what = what or next((what for mark, what in _NO_LINES_BY_MORE.items() if mark.match(head)), "")
    if what:
        raise DataError(f"{stream.name}: {what}, not text: unpack or convert it, and name the text inside")
    if kind is Kind.LINES and any(columns):
        option = next(option for column, option in columns.asked if column)
        raise DataError(f"{stream.name}: a text without columns: leave out {option}, or name a .tsv, .csv, .jsonl...")
    readers: dict[Kind, Callable[[ByteStream, Columns, int], Iterator[Cell]]]
    readers = {Kind.LINES: _lines, Kind.TSV: _tsv, Kind.CSV: _csv, Kind.JSONL: _jsonl, Kind.JSON: _json}
    yield from readers[kind](stream, columns, max_line_bytes)


def has_header(column: str) -> bool:
    """Return True if the first row of a TSV or CSV file holds the column names: the column is not a number."""
    return not column.isdecimal()


def _cells(tables: Iterator[pl.DataFrame]) -> Iterator[Cell]:
    """Yield the rows of the tables. A NUL is not a fault here: like other invisible characters, it is removed later."""
    for table in tables:
        further = (table[name] if name in table.columns else repeat("", table.height) for name in _OPTIONS)
        rows = zip(table.select("text", "fault", "raw").iter_rows(), *further, strict=True)
        for (text, fault, raw), prefix, to in rows:
            yield Cell(text, None if fault == NULL_BYTE else fault, raw, prefix, to)


class _Table:
    """Rows of a TSV or CSV file. The first row holds the column names, unless the columns are numbers."""

    def __init__(self, columns: Columns, place: str) -> None:
        self._columns = columns
        self._name = place
        self._places = columns.numbered(place)
        numbered = zip(self._places or [], columns.asked, strict=False)
        self._sought = [Sought(partial(_reach, number, option, place)) for number, (_, option) in numbered]

    @property
    def needs_names(self) -> bool:
        """True if the next row is the header."""
        return self._places is None

    def take_names(self, names: Sequence[str]) -> None:
        """Set the columns from the header."""
        self._places = self._columns.find(names, self._name)

    def cell(self, fields: Sequence[str], shown: str) -> Cell:
        """Return a row with these fields. A row that is too short for its prefix or its language has none."""
        text, *further = self._places or []
        for sought in self._sought:
            sought.among(fields)
        if text >= len(fields):
            return Cell(shown, MISSING_COLUMN)
        values = [fields[place] if place < len(fields) else "" for place in further]
        return self._columns.cell(fields[text], values)

    def end(self) -> None:
        """Check that no column number is too large for all rows."""
        for sought in self._sought:
            sought.require_found()


def _reach(place: int, option: str, name: str, fields: Sequence[str]) -> bool:
    if place >= len(fields):
        there = "there is 1" if len(fields) == 1 else f"there are {len(fields):,}"
        raise NoColumnError(f"{name}: no column {place + 1}: {there}; give {option} a smaller number")
    return True


def _lines(stream: ByteStream, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    return _cells(read_lines(stream, max_line_bytes, with_bytes=True))


def _tsv(stream: ByteStream, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    table = _Table(columns, stream.name)
    for cell in _lines(stream, columns, max_line_bytes):
        fields = cell.text.split("\t")
        if table.needs_names:
            table.take_names(fields)
        else:
            yield cell if cell.fault else table.cell(fields, cell.text)
    table.end()


def _csv(stream: ByteStream, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    delimiter = delimiter_of(stream, max_line_bytes)
    records = records_of(stream, max_line_bytes, delimiter)
    table = _Table(columns, stream.name)
    for record in records:
        if table.needs_names:
            table.take_names(names_in(record, delimiter))
        elif isinstance(record, Row):
            yield Cell(record.source, record.fault, records.raw)
        else:
            yield table.cell(record or [""], ",".join(record))  # an empty line has no fields
    table.end()


def _workbook(stream: ByteStream, columns: Columns) -> Iterator[Cell]:
    table = _Table(columns, stream.name)
    for row in spreadsheets.cells_of(stream):
        fields = [spreadsheets.as_text(cell) or "" for cell in row]
        if table.needs_names:
            table.take_names(fields)
        else:
            yield table.cell(fields, spreadsheets.shown(row))
    table.end()


def _jsonl(stream: ByteStream, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    sought = _sought(columns, stream.name)
    for cell in _lines(stream, columns, max_line_bytes):
        if cell.fault:
            yield cell
            continue
        try:
            record = json.loads(cell.text)
        except (ValueError, RecursionError):
            record = None
        yield _record(record, sought, cell.text, columns)
    for column in sought:
        column.require_found()


def _json(stream: ByteStream, columns: Columns, max_line_bytes: int) -> Iterator[Cell]:
    sought = _sought(columns, stream.name)
    for record in json_file.records(stream, max_line_bytes):
        if isinstance(record, Row):
            yield Cell(record.source, record.fault)
        else:
            yield _record(record, sought, json.dumps(record, ensure_ascii=False), columns)
    for column in sought:
        column.require_found()


def _sought(columns: Columns, name: str) -> list[Sought[Path]]:
    return [Sought(partial(_path, column, option, name)) for column, option in columns.asked]


def _record(record: Any, sought: Sequence[Sought[Path]], line: str, columns: Columns) -> Cell:
    """Return a row of JSON, which has no text unless it is an object."""
    try:
        is_known = all(column.found for column in sought)
        there = list(paths_of(record)) if not is_known and isinstance(record, dict) else []
    except RecursionError:
        record = None
    if isinstance(record, dict):
        return _object(record, [column.among(there) for column in sought], line, columns)
    return Cell(line, INVALID_JSON)


def _path(column: str, option: str, name: str, paths: Sequence[Path]) -> Path:
    return paths[find_column(names_of(paths), column, name, option)]


def _object(record: dict[str, Any], paths: Sequence[Path | None], line: str, columns: Columns) -> Cell:
    """Return a row of JSON. A missing or null prefix leaves the translation free, and such a language is none.

    A path is None if no row so far had the column.
    """
    (text, fault), *others = (text_at(path, record) if path else ("", MISSING_COLUMN) for path in paths)
    if NO_TEXT in [other for _, other in others]:
        fault = fault or NO_TEXT
    values = [value for value, _ in others]
    if not fault and not is_unicode([text, *values]):
        return Cell(line, INVALID_UTF8, line.encode())
    return Cell(line, fault) if fault else columns.cell(text, values)
