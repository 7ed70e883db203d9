"""Read members of a tar archive, plain or compressed. Such an archive can only be read from beginning to end."""

import tarfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self, cast

from nmt_core.errors import DataError
from nmt_core.formats.streams import ByteStream, Readable, open_file

_HELD_BYTES = 1 << 26
_BLOCK_BYTES = 1 << 20
_END_MARK = bytes(tarfile.BLOCKSIZE)


class Entry(NamedTuple):
    """A file in an archive: its name, its position among the archive's files (from 0), and its size there in bytes."""

    name: str
    number: int
    size: int


def entries(path: Path) -> list[Entry]:
    """Return all files of an archive in archive order.

    Raises:
        DataError: the archive is truncated or damaged.
    """
    return [Entry(info.name, number, info.size) for number, (_, info) in enumerate(_walk(path))]


def contents(path: Path, entries: Sequence[Entry]) -> Iterator[tuple[Entry, Readable, int]]:
    """Yield each requested file with its content and its size in the archive (bytes), in the given order.

    A file that appears in the archive before its turn is kept in memory if it is among the next 64 MB. Other files wait
    until the archive is read again: at most once for every 64 MB of files, and never if the files are in archive order.

    Raises:
        DataError: the archive is truncated or damaged, or a member is not a plain file.
    """
    ranks = {entry: rank for rank, entry in enumerate(entries)}
    ends = list(accumulate(entry.size for entry in entries))
    early: dict[int, bytes] = {}
    done = 0
    while done < len(entries):
        with closing(_walk(path)) as walk:
            for number, (archive, info) in enumerate(walk):
                entry = Entry(info.name, number, info.size)
                rank = ranks.get(entry, -1)
                if rank == done:
                    yield entry, _content(path, archive, info), entry.size
                    done += 1
                elif rank > done and ends[rank] - ends[done] <= _HELD_BYTES:
                    content = ByteStream(f"{path}: {entry.name}", _content(path, archive, info), "tar")
                    early[rank] = content.read_whole(entry.size)
                while done in early:
                    yield entries[done], BytesIO(early.pop(done)), entries[done].size
                    done += 1
                if done == len(entries):
                    return


def _content(path: Path, archive: tarfile.TarFile, info: tarfile.TarInfo) -> Readable:
    if not info.isreg() or info.issparse():
        raise DataError(
            f"{path}: the member {info.name!r} is a link, a device or a sparse file, not a plain file: do not trust "
            "this archive"
        )
    return cast(Readable, archive.extractfile(info))


def _walk(path: Path) -> Generator[tuple[tarfile.TarFile, tarfile.TarInfo], None, None]:
    """Yield every member that is not a folder, with the archive to read it from."""
    try:
        with (
            open_file(path) as stream,
            tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|", encoding="utf-8", tarinfo=_Header) as archive,
        ):
            for info in archive:
                if not info.isdir():
                    yield archive, info
            after = archive.fileobj.read(tarfile.BLOCKSIZE) if archive.fileobj else b""
            if after.strip(b"\0"):
                raise tarfile.ReadError("a block of zeros in place of a header")
            while stream.read(_BLOCK_BYTES):  # the checksum of the packing comes last
                pass
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{path}: the tar archive is truncated or damaged ({error}): fetch it again") from None


class _Header(tarfile.TarInfo):
    """A tar header that accepts only the end mark in place of a header. Python takes any invalid header for the end.

    The mark is two blocks of zeros. A file that ends after the first one has lost nothing.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if buf == _END_MARK:
                raise
            raise tarfile.ReadError(f"no end mark, but {error}") from None
