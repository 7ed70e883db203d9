"""Read JSON files that are one value: an array of records, or an object that holds the records in some way.

An array is read record by record, in the memory of one record. A record that is damaged costs itself only. This holds
as well for an array in an object, if only single values come before it, and little comes after it.
"""

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from nmt_core.errors import DataError
from nmt_core.formats.jsonl import INVALID_JSON, Pairs
from nmt_core.formats.kinds import JSON_RECORDS_BEGIN
from nmt_core.formats.layout import Layout
from nmt_core.formats.lines import BLOCK_BYTES, skip_byte_order_mark
from nmt_core.formats.rows import TOO_LONG, Row, frames_of
from nmt_core.formats.streams import ByteStream

_MOST_BYTES = 1 << 28
_MOST_CHARACTERS = 1 << 20  # of a record, if the longest line is shorter
_SHOWN = 200
_MOST_AFTER = 1 << 20
"""Number of characters of an object that may follow its array of records."""
_SPACE = re.compile(r"[ \t\r\n]*")
_BETWEEN = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")
_NEXT_RECORD = re.compile(r"[\]}][ \t\r\n]*,[ \t\r\n]*(?=[\[{])")
_UNFINISHED = 64
"""Number of characters before the end of what was read in which an error may mean that more must be read."""


def read(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield the pairs of a JSON file.

    See `reader.read` for the tables and errors.
    """
    objects = records(stream, layout.max_line_bytes)
    yield from frames_of(_rows(objects, layout, stream.name), layout.max_line_bytes)


def records(stream: ByteStream, max_line_bytes: int) -> Iterator[Any]:
    """Yield the records of a JSON file, and a Row in place of each one that is damaged.

    Raises:
        DataError: the file does not hold records, or does not end. Some records may have been yielded before.
    """
    skip_byte_order_mark(stream)
    is_array = stream.peek().lstrip().startswith(b"[")
    head = stream.peek().decode("utf-8", "replace")
    if is_array:
        yield from _array(stream, max_line_bytes)
    elif begin := JSON_RECORDS_BEGIN.match(head):
        stream.read(len(begin[0].encode()))
        text = _Text(stream)
        yield from _array(stream, max_line_bytes, text)
        _require_end(text, begin["name"], stream.name)
    else:
        yield from _of_object(stream)


def _rows(records: Iterator[Any], layout: Layout, place: str) -> Iterator[Row]:
    """Yield the pair of each record: an object, or an array of which the first two texts are the sides."""
    numbered = replace(layout, source_column=layout.source_column or "1", target_column=layout.target_column or "2")
    pairs, unnamed = Pairs(layout, place), Pairs(numbered, place)
    for record in records:
        if isinstance(record, Row):
            yield record
        elif isinstance(record, list):
            named = {str(number): value for number, value in enumerate(record, 1)}
            yield unnamed.row(named, json.dumps(record, ensure_ascii=False)[:_SHOWN])
        else:
            yield pairs.row(record, json.dumps(record, ensure_ascii=False)[:_SHOWN])
    pairs.end()
    unnamed.end()


class _Text:
    """Text of a stream that is read as it is needed."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.ahead = ""
        self.is_complete = False

    def more(self) -> None:
        """Read another block."""
        block = self._stream.read(max(BLOCK_BYTES, len(self.ahead)))
        self.is_complete = not block
        self.ahead += self._decoder.decode(block, not block)

    def take(self, end: int) -> str:
        """Remove the text before a position, and return it."""
        taken, self.ahead = self.ahead[:end], self.ahead[end:]
        return taken


def _array(stream: ByteStream, max_line_bytes: int, text: _Text | None = None) -> Iterator[Any]:
    """Yield the records of an array, or a Row for each one that is damaged.

    Args:
        stream: the file.
        max_line_bytes: the longest line, in bytes.
        text: text of the file from the array on, in which what follows the array is left. None means the whole file.

    Raises:
        DataError: the array does not end.
    """
    decoder, text = json.JSONDecoder(), text or _Text(stream)
    most = max(_MOST_CHARACTERS, 2 * max_line_bytes)
    text.more()
    text.take(_match_end(_SPACE, text.ahead) + 1)
    position = 0
    while True:
        position = _match_end(_BETWEEN, text.ahead, position)
        if position >= len(text.ahead) - _UNFINISHED and not text.is_complete:
            text.take(position)
            position = 0
            text.more()
            continue
        if position >= len(text.ahead):
            raise DataError(f"{stream.name}: the JSON array has no end: fetch it again, or complete it")
        if text.ahead[position] == "]":
            text.take(position + 1)
            return
        try:
            record, position = decoder.raw_decode(text.ahead, position)
            yield record
            continue
        except (json.JSONDecodeError, RecursionError) as error:
            text.take(position)
            position = 0
            if _may_be_unfinished(error, text, most):
                text.more()
                continue
            yield _damaged(text, error, most)


def _require_end(text: _Text, name: str, place: str) -> None:
    """Check that an object ends after its array of records, and holds no other.

    Raises:
        DataError: it holds another one, or does not end.
    """
    while not text.is_complete and len(text.ahead) <= _MOST_AFTER:
        text.more()
    try:
        if len(text.ahead) > _MOST_AFTER:
            raise ValueError(f"more than {_MOST_AFTER:,} characters follow the records")
        rest = json.loads("{" + text.ahead.lstrip().removeprefix(","))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{place}: the JSON object with the records {name!r} is damaged behind them ({error}): repair it, or write "
            "the list alone to a file"
        ) from None
    if others := [other for other, part in rest.items() if _is_list_of_records(part)]:
        raise DataError(
            f"{place}: several lists of records ({', '.join([name, *others])}): write the one to read to a file"
        )


def _may_be_unfinished(error: Exception, text: _Text, most: int) -> bool:
    """Return True if more text may make the record whole. It begins at the beginning of what is left."""
    if text.is_complete or len(text.ahead) > most or not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or len(error.doc) - error.pos < _UNFINISHED


def _damaged(text: _Text, error: Exception, most: int) -> Row:
    """Skip a damaged record, and return a row for it."""
    size = 0
    shown = text.ahead[:_SHOWN]
    while not (following := _NEXT_RECORD.search(text.ahead)):
        kept = max(0, len(text.ahead) - _UNFINISHED)
        if text.is_complete:
            end = text.ahead.rstrip().removesuffix("]")
            kept = len(end) if text.ahead.rstrip().endswith("]") else len(text.ahead)
            size += len(text.take(kept))
            break
        size += len(text.take(kept))
        text.more()
    else:
        size += len(text.take(following.end()))
    fault = (TOO_LONG, str(size)) if size > most else (INVALID_JSON, str(error))
    return Row(shown.encode("utf-8", "replace").decode(), "", *fault)


def _match_end(pattern: re.Pattern[str], text: str, position: int = 0) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _of_object(stream: ByteStream) -> Iterator[Any]:
    """Yield the records of an object: a list in it, its columns, or itself.

    Raises:
        DataError: the file is no JSON.
    """
    content = stream.read_whole(_MOST_BYTES)
    try:
        value = json.loads(content.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{stream.name}: a JSON object over several lines, and damaged ({error}): repair it, or write one object "
            "on each line (JSON Lines)"
        ) from None
    yield from _records_in(value, stream.name)


def _records_in(value: dict[str, Any], place: str) -> Sequence[Any]:
    lists = {name: part for name, part in value.items() if _is_list_of_records(part)}
    if len(lists) > 1:
        raise DataError(f"{place}: several lists of records ({', '.join(lists)}): write the one to read to a file")
    if lists:
        return next(iter(lists.values()))
    columns = [part for part in value.values() if isinstance(part, list | dict)]
    if columns and len(columns) == len(value):
        if all(isinstance(part, list) for part in columns):
            return [dict(zip(value, row, strict=False)) for row in zip(*columns, strict=False)]
        rows = [part for part in columns if isinstance(part, dict)]
        if len(rows) == len(columns) and all(
            key.isdecimal() and part.keys() == rows[0].keys() for part in rows for key in part
        ):
            return [{name: value[name][key] for name in value} for key in rows[0]]
        if len(rows) == len(columns) > 1 and all(part.keys() == rows[0].keys() for part in rows):
            return rows  # under the name of each record
    return [value]


def _is_list_of_records(part: Any) -> bool:
    return isinstance(part, list) and bool(part) and all(isinstance(one, dict) for one in part)
