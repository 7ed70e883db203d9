"""Members of a tar archive, plain or packed, which can only be read from its beginning to its end."""

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
    """A file in an archive: its name, which of the archive's files it is (from 0), and its size there in bytes."""

    name: str
    number: int
    size: int


def entries(path: Path) -> list[Entry]:
    """All files of an archive, in its order.

    Raises:
        DataError: it is truncated or damaged.
    """
    return [Entry(info.name, number, info.size) for number, (_, info) in enumerate(_walk(path))]


def contents(path: Path, wanted: Sequence[Entry]) -> Iterator[tuple[Entry, Readable, int]]:
    """What some files hold, in the given order, whatever that of the archive is; and the bytes that it takes there.

    A file that comes too early waits in memory if it is among the next 64 MB. The rest has to wait for the archive to
    be read again: once more for every 64 MB of files at most, and not at all if they are in order.

    Raises:
        DataError: the archive is truncated or damaged, or one of the files is none.
    """
    ranks = {entry: rank for rank, entry in enumerate(wanted)}
    ends = list(accumulate(entry.size for entry in wanted))
    early: dict[int, bytes] = {}
    done = 0
    while done < len(wanted):
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
                    yield wanted[done], BytesIO(early.pop(done)), wanted[done].size
                    done += 1
                if done == len(wanted):
                    return


def _content(path: Path, archive: tarfile.TarFile, info: tarfile.TarInfo) -> Readable:
    if not info.isreg() or info.issparse():
        raise DataError(
            f"{path}: the member {info.name!r} is a link, a device or a sparse file, not a plain file: do not trust "
            "this archive"
        )
    return cast(Readable, archive.extractfile(info))


def _walk(path: Path) -> Generator[tuple[tarfile.TarFile, tarfile.TarInfo], None, None]:
    """All that is no folder, each with the archive to read it from."""
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
            while stream.read(_BLOCK_BYTES):  # the checksum of what packs the archive comes last
                pass
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{path}: the tar archive is truncated or damaged ({error}): fetch it again") from None


class _Header(tarfile.TarInfo):
    """A header, in place of which only the end mark may stand: to Python, whatever is no header is an end.

    The mark is two blocks of zeros; nothing is lost with the second, if the file ends there.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if buf == _END_MARK:
                raise
            raise tarfile.ReadError(f"no end mark, but {error}") from None
