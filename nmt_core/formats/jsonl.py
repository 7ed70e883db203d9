"""Read JSON lines: one object, or one list of two texts, on each line.

A column in a nested object is named by its path, `translation.en`.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from nmt_core.formats.columns import Sought, find_columns, some
from nmt_core.formats.layout import Layout
from nmt_core.formats.lines import read_lines
from nmt_core.formats.rows import INVALID_UTF8, MISSING_COLUMN, MISSING_VALUE, Row, frames_of
from nmt_core.formats.streams import ByteStream

INVALID_JSON, NO_TEXT = "invalid_json", "no_text"

Path = tuple[str, ...]
"""Keys that lead to a value: (`translation`, `en`), or (`text.en`,) for a key that contains a dot."""


def read(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield the pairs of a JSON Lines file.

    See `reader.read` for the tables and errors.
    """
    yield from frames_of(_rows(stream, layout), layout.max_line_bytes)


def _rows(stream: ByteStream, layout: Layout) -> Iterator[Row]:
    pairs = Pairs(layout, stream.name)
    for table in read_lines(stream, layout.max_line_bytes):
        for text, fault, value in table.iter_rows():
            if fault:
                yield Row(text, "", fault, value)
                continue
            try:
                record = json.loads(text.rstrip().removesuffix(","))  # an array without its brackets
            except (ValueError, RecursionError) as error:
                yield Row(text, "", INVALID_JSON, str(error))
                continue
            yield pairs.row(record, text)
    pairs.end()


class Pairs:
    """Pairs of the records of a JSON file, whose columns follow from the first record that has them."""

    def __init__(self, layout: Layout, place: str) -> None:
        self._layout = layout
        self._place = place
        self._sought = Sought(self._find)
        self._record: dict[str, Any] = {}

    def row(self, record: Any, text: str) -> Row:
        """Return the pair of a record. `text` is what is shown of a record that has none."""
        if is_pair(record):
            return Row(*record) if is_unicode(record) else Row(text, "", INVALID_UTF8, "half of a surrogate pair")
        if not isinstance(record, dict):
            return Row(text, "", INVALID_JSON, "not an object")
        try:
            self._record = record
            paths = [] if self._sought.found else list(paths_of(record))
            columns = self._sought.among(paths)
        except RecursionError as error:
            return Row(text, "", INVALID_JSON, str(error))
        if columns is None:
            return Row(text, "", MISSING_COLUMN, f"there are {some(names_of(paths))}")
        return _pair(text, record, columns)

    def end(self) -> None:
        """Check that a record had the columns."""
        self._sought.require_found()

    def _find(self, paths: Sequence[Path]) -> list[Path]:
        is_text = [isinstance(_value_at(path, self._record), str | None) for path in paths]
        return [paths[place] for place in find_columns(names_of(paths), self._layout, self._place, is_text).all]


def is_pair(record: Any) -> bool:
    """Return True if a record is a list of two texts, which are the source and the target."""
    return isinstance(record, list) and len(record) == 2 and all(isinstance(part, str) for part in record)


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return the column names as a recipe spells them, such as `translation.en`."""
    return [".".join(path) for path in paths]


def paths_of(record: dict[str, Any]) -> Iterator[Path]:
    """Yield the path to each value of a record."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from ((name, *inner) for inner in paths_of(value))
        else:
            yield (name,)


def _pair(line: str, record: dict[str, Any], columns: list[Path]) -> Row:
    texts = []
    for path in columns[:2]:
        text, fault = text_at(path, record)
        if fault:
            return Row(line, "", fault, ".".join(path))
        texts.append(text)
    if "\\u" in line and not is_unicode(texts):
        return Row(line, "", INVALID_UTF8, "half of a surrogate pair")
    document = _value_at(columns[2], record) if len(columns) > 2 else None
    return Row(texts[0], texts[1], document=None if document is None else str(document))


def _value_at(path: Path, record: Any) -> Any:
    """Return the value at a path, or None if there is none."""
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record


def text_at(path: Path, record: dict[str, Any]) -> tuple[str, str | None]:
    """Return the text at a path, or an empty string and the fault that explains why there is none."""
    value: Any = record
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return "", MISSING_COLUMN
        value = value[name]
    if isinstance(value, str):
        return value, None
    return "", MISSING_VALUE if value is None else NO_TEXT


def is_unicode(texts: list[str]) -> bool:
    """Return True if UTF-8 can encode the texts. JSON can spell lone surrogates, which are not characters."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True
