"""Read the first sheet of XLSX workbooks (ECMA-376, part 1, section 18) row by row.

Memory holds one row, and the table of texts that the rows refer to, whose size is bounded. A workbook in an archive or
a compressed file, which cannot be read at any position, is held in memory as well.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from itertools import chain, islice
from typing import Any, BinaryIO

import polars as pl

from nmt_core.errors import ConfigError, DataError
from nmt_core.formats.columns import Columns, columns_of_table
from nmt_core.formats.jsonl import NO_TEXT
from nmt_core.formats.layout import Layout
from nmt_core.formats.rows import MISSING_VALUE, Row, frames_of
from nmt_core.formats.streams import ByteStream

_LOOKED_AT = 100
_MOST_BYTES = 1 << 28
"""Size of the largest workbook that is held in memory."""
_MOST_TEXTS_BYTES = 1 << 30
"""Size of the largest table of texts, which is in memory while the rows are read."""
_FREE_BYTES = 100_000_000
_MOST_TIMES = 250
"""Largest ratio of what a member unpacks to and its size, beyond `_FREE_BYTES`."""
_TEXTS = "xl/sharedStrings.xml"
_ESCAPED = re.compile(r"_x00([01][0-9A-Fa-f])_")
"""Control character as workbooks spell it (ECMA-376, part 1, section 22.9.2.19)."""
_ERRORS = frozenset({"#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A"})
_DAMAGES = (zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, AttributeError, IndexError, EOFError)
"""Errors that a damaged workbook causes. Errors of its XML are `SyntaxError`."""

Value = str | None
"""Text of a cell. None if it is empty, or if it holds a formula's error, a date or a truth value."""


def read(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield the pairs of the first sheet of a workbook.

    See `reader.read` for the tables and errors.

    Raises:
        ConfigError: the package openpyxl is missing.
    """
    yield from frames_of(_pairs(stream, layout), layout.max_line_bytes)


def _pairs(stream: ByteStream, layout: Layout) -> Iterator[Row]:
    rows = cells_of(stream)
    first = list(islice(rows, _LOOKED_AT))
    blanks = next((place for place, row in enumerate(first) if any(map(_is_text, row))), len(first))
    columns, names = Columns(0, 1), list[str]()
    if blanks < len(first):
        sample = [[as_text(cell) or "" for cell in row] for row in first[blanks:]]
        columns, has_header = columns_of_table(sample, layout, stream.name)
        names = sample[0] if has_header else []
        del first[blanks : blanks + int(has_header)]
    for row in chain(first, rows):
        yield _pair(row, columns, names)


def _pair(row: Sequence[Any], columns: Columns, names: Sequence[str]) -> Row:
    texts = [as_text(row[place]) if place < len(row) else None for place in columns.all]
    for place, text in zip(columns.all[:2], texts, strict=False):
        if text is None:
            is_empty = place >= len(row) or row[place] is None
            column = names[place] if place < len(names) else f"column {place + 1}"
            return Row(shown(row), "", MISSING_VALUE if is_empty else NO_TEXT, column)
    return Row(texts[0] or "", texts[1] or "", document=texts[2] if len(texts) > 2 else None)


def shown(row: Sequence[Any]) -> str:
    """Return the row as text for a report, with commas between its cells."""
    return ",".join(as_text(cell) or "" for cell in row)


def as_text(cell: Any) -> Value:
    """Return the text of a cell. A number counts as text, because a sentence may be one."""
    if isinstance(cell, str):
        return None if cell in _ERRORS else _ESCAPED.sub(lambda match: chr(int(match[1], 16)), cell)
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _is_text(cell: Any) -> bool:
    return bool((as_text(cell) or "").strip())


def cells_of(stream: ByteStream) -> Iterator[Sequence[Any]]:
    """Yield the values of the cells of each row. Rows have different lengths.

    Raises:
        ConfigError: the package openpyxl is missing.
        DataError: the workbook is damaged, has no sheet, or unpacks out of proportion. Some rows may have been yielded
            before.
    """
    load = _loader(stream.name)
    with _opened(stream) as file, _explained(stream.name):
        _require_proportion(file, stream.name)
        book = load(file, read_only=True, data_only=True, keep_links=False)
        try:
            sheets = book.worksheets
            if not sheets:
                raise DataError(f"{stream.name}: the workbook has no sheet with cells: name one that does")
            sheets[0].reset_dimensions()  # some programs state fewer rows and columns than there are
            yield from sheets[0].iter_rows(values_only=True)
        finally:
            book.close()


def _loader(place: str) -> Any:
    try:
        return import_module("openpyxl").load_workbook
    except ModuleNotFoundError:
        raise ConfigError(
            f"{place}: reading a workbook needs the package openpyxl: install nmt-pipeline[xlsx], or save the sheet as "
            "CSV"
        ) from None


@contextmanager
def _opened(stream: ByteStream) -> Iterator[BinaryIO]:
    """Yield the workbook as a file that can be read at any position."""
    if stream.path is None:
        yield BytesIO(stream.read_whole(_MOST_BYTES))
        return
    with stream.path.open("rb") as file:
        yield file


@contextmanager
def _explained(place: str) -> Iterator[None]:
    try:
        yield
    except (*_DAMAGES, SyntaxError) as error:
        raise DataError(f"{place}: the workbook is truncated or damaged ({error}): fetch it again") from None


def _require_proportion(file: BinaryIO, place: str) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    if large := next(
        (one for one in members if one.file_size > max(_FREE_BYTES, _MOST_TIMES * one.compress_size)), None
    ):
        raise DataError(
            f"{place}: its member {large.filename} has {large.compress_size:,} bytes and expands to "
            f"{large.file_size:,}: this is not text; save the sheet as CSV if you trust it"
        )
    texts = next((one.file_size for one in members if one.filename == _TEXTS), 0)
    if texts > _MOST_TEXTS_BYTES:
        raise DataError(f"{place}: its table of texts has {texts:,} bytes, too large for memory: save the sheet as CSV")
