"""Split a text into lines, block by block.

Only "\\n" ends a line, and a "\\r" right before it belongs to the line end. All other characters are data, including
U+2028, NEL, quotes and a lone "\\r". A byte order mark at the very beginning is not text. A line that is not UTF-8,
holds a NUL byte or is too long becomes a row with a fault. The remaining lines are read as usual.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa

from nmt_core.formats.rows import INVALID_UTF8, SIDE_SCHEMA, TOO_LONG, checked, explain_invalid, shown
from nmt_core.formats.streams import ByteStream

BLOCK_BYTES = 1 << 21
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NEWLINE = ord("\n")


def read_lines(
    stream: ByteStream, max_line_bytes: int, block_bytes: int = BLOCK_BYTES, *, with_bytes: bool = False
) -> Iterator[pl.DataFrame]:
    """Yield tables with the columns text, fault and value (String) and one row for each line. No table is empty.

    With `with_bytes`, a table also has the column raw (Binary): the bytes of a line that is not UTF-8, null otherwise.

    Raises:
        DataError: the file is truncated or damaged.
    """
    skip_byte_order_mark(stream)
    line = _OpenLine(max_line_bytes)
    while block := stream.read(block_bytes):
        end = block.rfind(b"\n") + 1
        if not end:
            line.grow(block)
            continue
        if line.is_too_long:
            first = block.find(b"\n") + 1
            line.grow(block[: first - 1])
            yield _laid_out(line.too_long(ended=True), None, with_bytes)
            whole = block[first:end]
        else:
            whole = line.head + block[:end]
        line = _OpenLine(max_line_bytes)
        line.grow(block[end:])
        if whole:
            yield _table(whole, max_line_bytes, with_bytes)
    if line.is_too_long:
        yield _laid_out(line.too_long(ended=False), None, with_bytes)
    elif line.head:
        yield _table(line.head, max_line_bytes, with_bytes)


def skip_byte_order_mark(stream: ByteStream) -> None:
    """Consume the byte order mark, if there is one."""
    if stream.peek(len(_BYTE_ORDER_MARK)).startswith(_BYTE_ORDER_MARK):
        stream.read(len(_BYTE_ORDER_MARK))


class _OpenLine:
    """A line whose end has not been read yet. If it is too long, only its beginning is kept."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
        self._most = max_line_bytes + len(b"\r")  # which may turn out to belong to the line end
        self._bytes = 0
        self._last = b""
        self.head = b""

    @property
    def is_too_long(self) -> bool:
        return self._bytes > self._most

    def grow(self, more: bytes) -> None:
        """Add bytes that contain no newline."""
        self.head += more[: self._most + 1 - len(self.head)]
        self._bytes += len(more)
        self._last = more[-1:] or self._last

    def too_long(self, *, ended: bool) -> pl.DataFrame:
        """Return the line as a table of one row."""
        length = self._bytes - (ended and self._last == b"\r")
        row = shown(self.head, self._limit), TOO_LONG, str(length)
        return pl.DataFrame([row], schema=SIDE_SCHEMA, orient="row")


def _table(block: bytes, max_line_bytes: int, with_bytes: bool) -> pl.DataFrame:
    """Return the lines of a block that ends with a complete line."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(block) - 1)
    offsets = np.zeros(len(ends) + 1, np.int64)
    np.add(ends, 1, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    raw = pl.Series(pl.from_arrow(pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)))
    table = checked(texts_of(raw, max_line_bytes, ends=True, returns=b"\r\n" in block), max_line_bytes)
    return _laid_out(table, raw, with_bytes)


def _laid_out(table: pl.DataFrame, raw: pl.Series | None, with_bytes: bool) -> pl.DataFrame:
    """Return the table, and add the bytes of its lines that are not UTF-8 if `with_bytes` is set."""
    if not with_bytes:
        return table
    if raw is None or table["fault"].null_count() == table.height:
        return table.with_columns(raw=pl.lit(None, dtype=pl.Binary))
    contents = [
        content.removesuffix(b"\n").removesuffix(b"\r") if fault == INVALID_UTF8 else None
        for content, fault in zip(raw, table["fault"], strict=True)
    ]
    return table.with_columns(raw=pl.Series(contents, dtype=pl.Binary))


def texts_of(raw: pl.Series, max_line_bytes: int, *, ends: bool = False, returns: bool = False) -> pl.DataFrame:
    """Return a row for each binary value. Nulls stay null.

    `ends` strips the line ends. `returns` means that some of them are CRLF.
    """
    longest = raw.bin.size().max()
    try:
        text = raw.cast(pl.String) if not isinstance(longest, int) or longest <= max_line_bytes else None
    except pl.exceptions.ComputeError:  # at least one value is not UTF-8
        text = None
    if text is None:
        return _texts_one_by_one(raw, max_line_bytes, ends)
    if returns:
        text = text.str.strip_suffix("\r\n")
    if ends:
        text = text.str.strip_suffix("\n")
    nothing = pl.Series([None], dtype=pl.String).new_from_index(0, len(text))
    return pl.DataFrame({"text": text, "fault": nothing, "value": nothing})


def _texts_one_by_one(raw: pl.Series, max_line_bytes: int, ends: bool) -> pl.DataFrame:
    rows: list[tuple[str | None, str | None, str | None]] = []
    for content in raw.to_list():
        if content is None:
            rows.append((None, None, None))
            continue
        if ends and content.endswith(b"\n"):
            content = content[:-1].removesuffix(b"\r")
        if len(content) > max_line_bytes:
            rows.append((shown(content, max_line_bytes), TOO_LONG, str(len(content))))
            continue
        try:
            rows.append((content.decode("utf-8"), None, None))
        except UnicodeDecodeError as error:
            rows.append((content.decode("utf-8", "replace"), INVALID_UTF8, explain_invalid(error)))
    return pl.DataFrame(rows, schema=SIDE_SCHEMA, orient="row")
