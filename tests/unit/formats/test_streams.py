"""Packed files are unpacked as streams, and damaged or exploding ones are refused."""

import bz2
import errno
import gc
import gzip
import lzma
import random
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
import zstandard

from nmt_core.errors import DataError, StageError
from nmt_core.formats.signatures import packing_of
from nmt_core.formats.streams import ByteStream, open_file, unpacked

Pack = Callable[[bytes], bytes]
PACKERS: dict[str, Pack] = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}
PARAMETERS = pytest.mark.parametrize(("packing", "pack"), PACKERS.items(), ids=PACKERS)
TEXT = b"".join(b"line %d\n" % random.Random(1).randrange(10**9) + b"%d\n" % number for number in range(20_000))


def content_of(path: Path, packed: bytes) -> bytes:
    path.write_bytes(packed)
    with open_file(path) as stream:
        return b"".join(iter(lambda: stream.read(10_000), b""))


@PARAMETERS
def test_a_packed_file_is_unpacked(packing: str, pack: Pack, tmp_path: Path) -> None:
    assert packing_of(pack(TEXT)) == packing
    assert content_of(tmp_path / "file", pack(TEXT)) == TEXT
    assert content_of(tmp_path / "file", pack(TEXT[:1000]) + pack(TEXT[1000:])) == TEXT


@PARAMETERS
def test_nothing_is_said_of_a_sound_file(
    packing: str, pack: Pack, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content_of(tmp_path / "file", pack(TEXT))
    gc.collect()

    assert capfd.readouterr().err == ""


@PARAMETERS
@pytest.mark.parametrize("kept", [0.3, 0.99])
def test_a_truncated_file_is_refused(packing: str, pack: Pack, kept: float, tmp_path: Path) -> None:
    packed = pack(TEXT)
    with pytest.raises(DataError, match=rf"cut: the {packing} file is truncated or damaged .*: fetch it again"):
        content_of(tmp_path / "cut", packed[: int(kept * len(packed))])


@PARAMETERS
def test_a_file_without_its_last_bytes_is_refused(packing: str, pack: Pack, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="truncated or damaged"):
        content_of(tmp_path / "cut", pack(TEXT)[:-2])


@PARAMETERS
def test_a_damaged_file_is_refused(packing: str, pack: Pack, tmp_path: Path) -> None:
    packed = bytearray(pack(TEXT))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(DataError, match=rf"bad: the {packing} file is truncated or damaged"):
        content_of(tmp_path / "bad", bytes(packed))


@pytest.mark.parametrize("pack", [PACKERS["zst"], lambda content: lzma.compress(content, preset=0)])
def test_a_bomb_is_refused_before_it_has_expanded(pack: Pack, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(pack(b"\n" * 120_000_000))
    seen = 0
    with open_file(path) as stream, pytest.raises(DataError, match=r"bomb: .* bytes expand to more than .* not text"):
        while block := stream.read(1 << 20):
            seen += len(block)
    assert 90_000_000 < seen < 110_000_000


def test_a_small_file_may_expand_as_much_as_it_likes(tmp_path: Path) -> None:
    assert len(content_of(tmp_path / "file", gzip.compress(b"\n" * 10_000_000))) == 10_000_000


def test_peeking_takes_nothing() -> None:
    stream = ByteStream("text", BytesIO(b"abcdef"))

    assert stream.peek(3)[:3] == b"abc"
    assert stream.read(2) == b"ab"
    assert stream.peek(10) == b"cdef"
    assert stream.read(10) + stream.read(10) == b"cdef"


def test_a_format_that_is_read_whole_has_a_bound() -> None:
    assert ByteStream("text", BytesIO(b"abcdef")).read_whole(6) == b"abcdef"
    with pytest.raises(DataError, match="text: more than 5 bytes"):
        ByteStream("text", BytesIO(b"abcdef")).read_whole(5)


@pytest.mark.parametrize("packing", ["", "gz"])
def test_a_disk_that_fails_is_not_called_a_damaged_file(packing: str) -> None:
    class Failing(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() >= 1_000:
                raise OSError(errno.EIO, "Input/output error")
            return super().read(1_000)

    content = random.Random(1).randbytes(5_000)
    stream = unpacked(ByteStream("a.txt", Failing(gzip.compress(content) if packing else content)))
    with pytest.raises(StageError, match=r"^a\.txt: its disk or store fails \(\[Errno 5\] Input/output error\): check"):
        while stream.read(500):
            pass
