"""Read the bytes of a text and decompress them on the fly. A file of any size takes the memory of one block.

A compressed file must be complete. Its expansion is bounded: after the first 100 MB, the output may be at most 250
times as large as the input. (Text shrinks to a third or a tenth, and hardly ever below a fiftieth.)
"""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import pyarrow as pa

from nmt_core.errors import DataError, StageError, words_of
from nmt_core.formats import signatures

HEAD_BYTES = 1 << 16
"""Number of bytes at the beginning of a text that are examined to detect its format."""

_FREE_BYTES = 100_000_000
_MOST_TIMES = 250
_FAILURES = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, pa.ArrowException)


class Readable(Protocol):
    """Protocol of anything that can be read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, and an empty result only at the end."""


class ByteStream:
    """Bytes of one text, under the name that errors use for it.

    `packing` is gz, zst, xz, bz2, or empty for text that is not compressed as one stream. `packed_bytes` returns the
    number of bytes read from the compressed file. Without it, expansion is not bounded. `path` or `file` is set if the
    stream is an entire file, local or in a store, so that it can be read at any position. `is_decoded` is set if the
    bytes were converted to UTF-8, whatever charset the text declares.
    """

    def __init__(
        self, name: str, source: Readable, packing: str = "", packed_bytes: Callable[[], int] | None = None
    ) -> None:
        self.name = name
        self._source = source
        self.packing = packing
        self._packed_bytes = packed_bytes
        self.path: Path | None = None
        self.file: BinaryIO | None = None
        self.is_decoded = False
        self._ahead = b""
        self._unpacked = 0

    def peek(self, size: int = HEAD_BYTES) -> bytes:
        """Return the next bytes without consuming them: at least `size`, unless the text ends before."""
        while len(self._ahead) < size and (more := self._take(size - len(self._ahead))):
            self._ahead += more
        return self._ahead

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, and an empty result only at the end.

        Raises:
            DataError: the file is truncated or damaged, or it expands out of proportion.
            StageError: the disk or the store of the file fails.
        """
        if self._ahead:
            taken, self._ahead = self._ahead[:size], self._ahead[size:]
            return taken
        return self._take(size)

    def read_whole(self, limit: int) -> bytes:
        """Return the remaining bytes, for formats that cannot be read piece by piece.

        Raises:
            DataError: more than `limit` bytes remain.
        """
        content = self.peek(limit + 1)
        if len(content) > limit:
            raise DataError(f"{self.name}: more than {limit:,} bytes, too large for a file of this kind: split it")
        self._ahead = b""
        return content

    def _take(self, size: int) -> bytes:
        try:
            taken = self._source.read(size)
        except _FAILURES as error:
            if isinstance(error, OSError) and error.errno:  # from the system, not from a decompressor
                raise StageError(
                    f"{self.name}: its disk or store fails ({words_of(error)}): check that you can read the file, then "
                    "run the same command again"
                ) from None
            kind = f"{self.packing} " if self.packing else ""
            raise DataError(f"{self.name}: the {kind}file is truncated or damaged ({error}): fetch it again") from None
        self._unpacked += len(taken)
        if self._packed_bytes and self._unpacked > max(_FREE_BYTES, _MOST_TIMES * self._packed_bytes()):
            raise DataError(
                f"{self.name}: {self._packed_bytes():,} bytes expand to more than {self._unpacked:,}, over "
                f"{_MOST_TIMES} times as much: this is not text; unpack the file yourself if you trust it"
            )
        return taken


@contextmanager
def open_file(path: Path) -> Iterator[ByteStream]:
    """Open a file as a stream, and decompress it if it is compressed as one stream.

    Raises:
        DataError: the file does not exist or cannot be opened.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}): check the path in the recipe") from None
    with file:
        stream = ByteStream(str(path), file)
        stream.path = path
        yield unpacked(stream)


def unpacked(stream: ByteStream) -> ByteStream:
    """Return a stream of the decompressed bytes. Plain files and archives are returned unchanged.

    A file that was compressed twice is decompressed twice.
    """
    packing = signatures.packing_of(stream.peek(signatures.HEAD_BYTES))
    if not packing:
        return stream
    counted = _Counted(stream)
    once = ByteStream(stream.name, _unpacker(packing, counted), packing, lambda: counted.taken)
    again = signatures.packing_of(once.peek(signatures.HEAD_BYTES))
    return ByteStream(stream.name, _unpacker(again, _Counted(once)), again, lambda: counted.taken) if again else once


class _Counted:
    """File object for decompressors of other libraries that counts the bytes read from it."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self.taken = 0
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            raise ValueError("a compressed file must be read in blocks")
        block = self._stream.read(size)
        self.taken += len(block)
        return block

    def close(self) -> None:  # called by decompressors; the opener closes the file itself
        self.closed = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _unpacker(packing: str, packed: _Counted) -> Readable:
    file = cast(BinaryIO, packed)
    if packing == "gz":
        return gzip.GzipFile(fileobj=file)
    if packing == "bz2":
        return bz2.BZ2File(file)
    if packing == "xz":
        return lzma.LZMAFile(file)
    return cast(Readable, pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))
