"""Write and check the checksums of a checkpoint's files. Each file holds its own.

Every file that `torch.distributed.checkpoint` writes gets one more line at its end: the versions that wrote it, and the
sha256 of everything before. PyTorch's own readers ignore the line: they find pieces by offset, and a pickle marks its
own end. A file of an older checkpoint has no such line, and is read unchecked.
"""

import hashlib
import io
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem

_LAST_LINE = re.compile(rb"\n(Python \S+ and PyTorch \S+) sha256 ([0-9a-f]{64})\n\Z")
_LONGEST_LINE = 300  # bytes
_READ_AT_ONCE = 1 << 22


def versions() -> str:
    """Return the versions that decide the format of a checkpoint, such as "Python 3.11.2 and PyTorch 2.13.0"."""
    return f"Python {platform.python_version()} and PyTorch {torch.__version__}"


@dataclass(frozen=True)
class Checksum:
    """Checksum in the last line of a file."""

    content: int
    """Bytes of the file before this line."""
    written_by: str
    """Versions that wrote the file, in the form of `versions`."""
    sha256: str

    @classmethod
    def read(cls, file: Path) -> "Checksum | None":
        """Return the checksum of a file, or None if its last line is not one.

        Raises:
            OSError: the file cannot be read.
        """
        with file.open("rb") as opened:
            size = opened.seek(0, io.SEEK_END)
            opened.seek(max(0, size - _LONGEST_LINE))
            line = _LAST_LINE.search(opened.read())
        return cls(size - len(line[0]), line[1].decode(), line[2].decode()) if line else None


def damage_of(file: Path) -> str | None:
    """Return the damage that a file's own checksum shows, or None."""
    try:
        checksum = Checksum.read(file)
        return diagnose(file, checksum.content) if checksum else None
    except OSError as error:
        return f"{file} cannot be read ({error})"


def diagnose(file: Path, content: int) -> str | None:
    """Return the difference between a file and what was written, or None if none is known.

    Args:
        file: a file of a checkpoint.
        content: its size in bytes, without the line of the checksum.
    """
    try:
        checksum = Checksum.read(file)
        if not checksum:
            size = file.stat().st_size
            return None if size == content else f"{file} has {size - content:,} bytes too many, and no checksum"
        if checksum.content != content:
            return f"{file} has {checksum.content:,} bytes before its checksum, not {content:,}"
        return None if _sha256_before_line(file, checksum) == checksum.sha256 else f"{file} differs from its checksum"
    except OSError as error:
        return f"{file} cannot be read ({error})"


def _sha256_before_line(file: Path, checksum: Checksum) -> str:
    """Compute the expected value of `checksum.sha256`, which covers the versions too."""
    sha256, left = hashlib.sha256(), checksum.content
    with file.open("rb") as opened:
        while left and (piece := opened.read(min(left, _READ_AT_ONCE))):
            sha256.update(piece)
            left -= len(piece)
    sha256.update(_before_sha256(checksum.written_by))
    return sha256.hexdigest()


def _before_sha256(written_by: str) -> bytes:
    return f"\n{written_by} sha256 ".encode()


class Writer(filesystem._FileSystemWriter):
    """Writer of a checkpoint whose files end in checksums.

    It is not a `FileSystemWriter`, which copies the state differently from the default of `async_save`.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fs = _FileSystem()


class _FileSystem(filesystem.FileSystem):
    """File system whose written files end in checksums."""

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        """Open a file for writing, and append its checksum at the end of the block unless an error occurs."""
        with super().create_stream(path, mode) as stream:
            summing = _SummingStream(stream)
            yield summing
            summing.close()


class _SummingStream:
    """Stream that is written sequentially, and appends its checksum when it is closed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._sha256 = hashlib.sha256()
        self._is_closed = False

    def write(self, data: Any) -> int:
        self._sha256.update(data)
        written: int = self._stream.write(data)
        return written

    def tell(self) -> int:
        position: int = self._stream.tell()
        return position

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        number: int = self._stream.fileno()
        return number

    def close(self) -> None:
        """Append the last line and flush it to the disk. PyTorch has already synchronised what it wrote itself."""
        if self._is_closed:
            return
        self._is_closed = True
        before = _before_sha256(versions())
        self._sha256.update(before)
        self._stream.write(before + self._sha256.hexdigest().encode() + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())
