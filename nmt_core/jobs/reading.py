"""Read the rows of a text to translate, from a file or from a pipe, and refuse what would be misread."""

import contextlib
import io
import os
import re
import select
from collections.abc import Callable, Iterator
from typing import BinaryIO

import polars as pl

from nmt_core.documents.opening import require_no_document
from nmt_core.errors import DataError
from nmt_core.formats.charsets import in_utf8, shown_charset
from nmt_core.formats.kinds import Kind
from nmt_core.formats.quotes import are_quoting
from nmt_core.formats.single import Cell, Columns, read_single
from nmt_core.formats.streams import ByteStream
from nmt_core.jobs.order import MAX_LINE_BYTES

STANDARD_INPUT = "standard input"

_HEAD = 1 << 12
_ONE_VALUE = re.compile(rb"\s*(?:\[|\{\s*\n)")
_SECONDS_BETWEEN_WRITES = 0.02
"""Longest time that a program at the other end of a pipe takes between two pieces of text that it has ready."""


def cells_of(stream: ByteStream, kind: Kind, columns: Columns) -> Iterator[Cell]:
    """Yield the rows of a text, in UTF-8, UTF-16 or UTF-32.

    Raises:
        DataError: the file has the rows in a form that would be misread; see also `read_single`.
    """
    if kind is not Kind.PARQUET:
        stream = decoded(stream)
        _require_line_ends(stream)
    if kind is Kind.LINES:
        require_no_document(stream)
    if kind is Kind.TSV:
        _require_unquoted(stream)
    if kind is Kind.JSONL:
        _require_an_object_on_each_line(stream)
    return read_single(stream, kind, columns, MAX_LINE_BYTES)


def decoded(stream: ByteStream) -> ByteStream:
    """Return a stream of the text in UTF-8."""
    return in_utf8(stream, shown_charset(stream.peek()))


def _require_unquoted(stream: ByteStream) -> None:
    """Check that quotes in the first lines of a TSV file are text."""
    head = stream.peek()
    if are_quoting(pl.Series(head[: head.rfind(b"\n") + 1].decode("utf-8", "replace").split("\n"))):
        raise DataError(
            f"{stream.name}: fields are in quotes, which would be translated, because TSV has no quotes: name the file "
            "*.csv, which may have tabs between its columns"
        )


def _require_line_ends(stream: ByteStream) -> None:
    """Check that lines do not end in carriage returns alone, as they did on old Macs: they would all be one line."""
    head = stream.peek()
    if head.count(b"\r") > 1 and b"\n" not in head:
        raise DataError(
            f"{stream.name}: its lines end in CR alone, so they would be read as one line: convert it, as by "
            r"`tr '\r' '\n' < FILE > NEW_FILE`"
        )


def _require_an_object_on_each_line(stream: ByteStream) -> None:
    """Check that a file of JSON is not one value over several lines."""
    if _ONE_VALUE.match(stream.peek()):
        raise DataError(
            f"{stream.name}: is one value of JSON, and not an object on each line: convert it, as by "
            "`jq -c '.[]' FILE > NEW_FILE.jsonl` for an array"
        )


class Pipe:
    """Bytes of a pipe, as they arrive. `on_wait` is called whenever nothing more has arrived yet.

    Args:
        source: the pipe, or any other file.
    """

    def __init__(self, source: BinaryIO) -> None:
        self.on_wait: Callable[[], None] = lambda: None
        self._source = source
        self._descriptor = None
        with contextlib.suppress(OSError, io.UnsupportedOperation, AttributeError):
            self._descriptor = source.fileno()

    def read(self, size: int, /) -> bytes:
        """Return the bytes that have arrived, and wait for the first one. The result is empty only at the end."""
        if self._descriptor is None:
            return self._source.read(size)
        if not self.has_arrived():
            self.on_wait()
        return os.read(self._descriptor, size)

    def has_arrived(self) -> bool:
        """Return True if there are bytes to read, or if the end has arrived."""
        if self._descriptor is None:
            return True
        readable, _, _ = select.select([self._descriptor], [], [], _SECONDS_BETWEEN_WRITES)
        return bool(readable)


class PipeStream(ByteStream):
    """Stream of a pipe whose first line may be shorter than the signature of a packed file."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__(STANDARD_INPUT, pipe)
        self._pipe = pipe

    def peek(self, size: int = _HEAD) -> bytes:
        """Return the next bytes without consuming them: `size`, or a line if nothing more has arrived."""
        while len(self._ahead) < size and (b"\n" not in self._ahead or self._pipe.has_arrived()):
            more = self._take(size - len(self._ahead))
            if not more:
                break
            self._ahead += more
        return self._ahead
