"""Members of zip and tar archives: which of them are read, and as which side."""

import gzip
import io
import lzma
import random
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest
import zstandard

from nmt_core.errors import DataError
from nmt_core.formats import TextFile, tars

Reader = Callable[..., pl.DataFrame]
Members = Mapping[str, bytes]


def zipped(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def plain_tar(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def tarred(path: Path, members: Members) -> Path:
    path.write_bytes(gzip.compress(plain_tar(path, members).read_bytes()))
    return path


def tar_xz(path: Path, members: Members) -> Path:
    path.write_bytes(lzma.compress(plain_tar(path, members).read_bytes()))
    return path


def tar_zst(path: Path, members: Members) -> Path:
    pack = zstandard.ZstdCompressor(write_checksum=True)
    path.write_bytes(pack.compress(plain_tar(path, members).read_bytes()))
    return path


PACKERS = pytest.mark.parametrize("pack", [zipped, tarred])
ALL_PACKERS = pytest.mark.parametrize("pack", [zipped, plain_tar, tarred, tar_xz, tar_zst])
Packer = Callable[[Path, Members], Path]


def sides(path: Path, source: str = "", target: str = "") -> list[TextFile]:
    return [TextFile(path, "source", source), TextFile(path, "target", target)]


def pairs_of(rows: pl.DataFrame) -> list[tuple[str, str]]:
    assert rows["fault"].null_count() == rows.height
    return rows.select("source", "target").rows()


@PACKERS
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Tatoeba.de-en.en", "Tatoeba.de-en.de"),
        ("a/train.eng", "a/train.deu"),
        ("train.en.txt", "train.de.txt"),
        ("EN.TXT", "DE.TXT"),
        ("en/x.en_US", "de/x.ger"),
        ("./set-src.en", "./set-ref.de"),
    ],
)
def test_the_language_in_the_name_says_the_side(
    pack: Packer, source: str, target: str, tmp_path: Path, read_files: Reader
) -> None:
    others = {
        "README": b"x\n",
        "LICENSE": b"y\n",
        "__MACOSX/._train.en": b"z\n",
        "Tatoeba.de-en.xml": b"w\n",
        "a/": b"",
    }
    path = pack(tmp_path / "archive", others | {target: b"A\nB\n", source: b"a\nb\n"})

    assert pairs_of(read_files(sides(path))) == [("a", "A"), ("b", "B")]


@PACKERS
def test_of_many_pairs_the_one_with_both_languages_is_read(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    members = {
        f"crawl.{pair}.{side}": f"{pair} {side}\n".encode()
        for pair in ("cs-en", "de-en", "fr-en")
        for side in pair.split("-")
    }

    assert pairs_of(read_files(sides(pack(tmp_path / "archive", members)))) == [("de-en en", "de-en de")]


@ALL_PACKERS
def test_members_are_read_in_the_order_of_their_names(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    members = {f"part{number}.{side}": f"{side}{number}\n".encode() for number in (2, 0, 1) for side in ("de", "en")}
    path = pack(tmp_path / "archive", members)

    assert pairs_of(read_files(sides(path))) == [("en0", "de0"), ("en1", "de1"), ("en2", "de2")]
    assert pairs_of(read_files(sides(path, "part[02].en", "*[12].de"))) == [("en0", "de1"), ("en2", "de2")]


@ALL_PACKERS
def test_a_packed_member_is_unpacked(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    path = pack(tmp_path / "archive", {"a.en.gz": gzip.compress(b"a\n"), "a.de.xz": lzma.compress(b"A\n")})

    assert pairs_of(read_files(sides(path))) == [("a", "A")]


@PACKERS
def test_the_only_data_member_holds_both_sides(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    path = pack(tmp_path / "archive", {"README.md": b"x\n", "data/table": b"a\tA\n"})
    assert pairs_of(read_files([TextFile(path, "both")])) == [("a", "A")]

    path = pack(tmp_path / "archive", {"one.tsv": b"a\tA\n", "two.tsv": b"b\tB\n"})
    assert pairs_of(read_files([TextFile(path, "both", "*.tsv")])) == [("a", "A"), ("b", "B")]
    with pytest.raises(
        DataError, match=r"no member is clearly the text .*name it with `member`; there are one.tsv, two.tsv"
    ):
        read_files([TextFile(path, "both")])


MOSES = {
    "README": b"x\n",
    "LICENSE": b"y\n",
    "Tatoeba.de-en.en": b"a\nb\n",
    "Tatoeba.de-en.de": b"A\nB\n",
    "Tatoeba.de-en.xml": b"z\n",
}


@ALL_PACKERS
def test_an_archive_of_a_pair_holds_both_sides(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    path = pack(tmp_path / "archive", MOSES)
    assert pairs_of(read_files([TextFile(path, "both")])) == [("a", "A"), ("b", "B")]

    several = {f"{name}.{side}": f"{name} {side}\n".encode() for name in ("x", "y") for side in ("de", "en")}
    path = pack(tmp_path / "archive", MOSES | several)
    assert pairs_of(read_files([TextFile(path, "both", "x.*")])) == [("x en", "x de")]
    with pytest.raises(DataError, match=r"the only two that end with \.en and \.de\): name it with `member`"):
        read_files([TextFile(path, "both")])
    one = pack(tmp_path / "archive", {name: text for name, text in MOSES.items() if not name.endswith(".de")})
    with pytest.raises(DataError, match="no member is clearly the text"):
        read_files([TextFile(one, "both")])


@PACKERS
def test_one_pattern_may_fit_both_sides(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    path = pack(tmp_path / "archive", MOSES | {"other.en": b"c\n", "other.de": b"C\n"})

    assert pairs_of(read_files(sides(path, "Tatoeba.*", "Tatoeba.*"))) == [("a", "A"), ("b", "B")]


def test_members_in_any_order_take_few_readings(
    tmp_path: Path, read_files: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []
    walk = tars._walk
    monkeypatch.setattr(tars, "_walk", lambda path: readings.append(path) or walk(path))  # type: ignore[func-returns-value]
    names = [f"{number:02}.tsv" for number in range(20)]
    expected = [(f"{name} {line}", "x") for name in names for line in range(10)]
    bytes_of_one = len(content_of(names[0]))

    def count(order: list[str], most_held: int) -> int:
        path = plain_tar(tmp_path / "archive", {name: content_of(name) for name in order})
        monkeypatch.setattr(tars, "_HELD_BYTES", most_held)
        readings.clear()
        assert pairs_of(read_files([TextFile(path, "both", "*.tsv")])) == expected
        return len(readings) - 1  # one to know the names

    assert count(names, 0) == 1
    assert count(names[::-1], 1 << 26) == 1
    assert count(names[::-1], 4 * bytes_of_one) == 4
    for seed in range(5):
        assert count(random.Random(seed).sample(names, 20), 4 * bytes_of_one) <= 4


def content_of(name: str) -> bytes:
    return "".join(f"{name} {line}\tx\n" for line in range(10)).encode()


def test_a_member_that_is_there_twice_is_read_twice(tmp_path: Path, read_files: Reader) -> None:
    path = tmp_path / "archive.tar"
    with tarfile.open(path, "w") as archive:
        for name, content in (("b.tsv", b"b\tB\n"), ("a.tsv", b""), ("a.tsv", b"a\tA\n"), ("b.tsv", b"c\tC\n")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    with pytest.raises(DataError, match=r"a\.tsv: the file is empty"):
        read_files([TextFile(path, "both", "*.tsv")])
    assert pairs_of(read_files([TextFile(path, "both", "b.tsv")])) == [("b", "B"), ("c", "C")]


def test_a_tar_without_its_end_is_refused_wherever_it_is_cut(tmp_path: Path, read_files: Reader) -> None:
    path = plain_tar(tmp_path / "archive.tar", {"a.tsv": b"a\tA\n", "b.tsv": b"b\tB\n"})
    whole = path.read_bytes()
    for cut in range(512, 4 * 512 + 1, 4):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match=r"archive\.tar.* truncated or damaged"):
            read_files([TextFile(path, "both", "*.tsv")])
    for cut in (5 * 512, 6 * 512, len(whole)):
        path.write_bytes(whole[:cut])
        assert pairs_of(read_files([TextFile(path, "both", "*.tsv")])) == [("a", "A"), ("b", "B")]


@pytest.mark.parametrize("spoilt", [bytes(512), b"x" * 512])
def test_a_tar_with_a_damaged_header_is_refused(spoilt: bytes, tmp_path: Path, read_files: Reader) -> None:
    path = plain_tar(tmp_path / "archive.tar", {"a.tsv": b"a\tA\n", "b.tsv": b"b\tB\n"})
    whole = path.read_bytes()
    path.write_bytes(whole[:1024] + spoilt + whole[1536:])
    with pytest.raises(DataError, match=r"archive\.tar: the tar archive is truncated or damaged"):
        read_files([TextFile(path, "both", "*.tsv")])


@pytest.mark.parametrize("pack", [tarred, tar_xz, tar_zst])
def test_the_checksum_of_a_packed_tar_is_read(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    path = pack(tmp_path / "archive", {"a.tsv": b"a\tA\n"})
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match="truncated or damaged"):
        read_files([TextFile(path, "both")])


@PACKERS
def test_no_member_that_fits_is_an_error(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    path = pack(tmp_path / "archive", {"a.fr": b"a\n", "a.es": b"b\n"})
    with pytest.raises(DataError, match=r"no member is clearly the text \(a name that ends with \.en\)"):
        read_files(sides(path))
    with pytest.raises(DataError, match=r"no member matches '\*\.xx'"):
        read_files(sides(path, "*.xx"))


@PACKERS
def test_members_that_do_not_match_up_are_refused(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    path = pack(tmp_path / "archive", {"1.en": b"a\n", "2.en": b"b\n", "1.de": b"A\n"})
    with pytest.raises(DataError, match=r"archive: 2\.en: has no partner on the other side"):
        read_files(sides(path, "*.en", "*.de"))


@PACKERS
@pytest.mark.parametrize("name", ["../evil.en", "a/../../evil.en", "/etc/evil.en", "C:\\evil.en", "..\\evil.en"])
def test_a_member_that_leads_out_is_refused(pack: Packer, name: str, tmp_path: Path, read_files: Reader) -> None:
    path = pack(tmp_path / "archive", {name: b"a\n", "a.de": b"A\n"})
    with pytest.raises(DataError, match="leads out of the archive"):
        read_files(sides(path))


@PACKERS
def test_an_archive_in_an_archive_is_refused(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    inner = zipped(tmp_path / "inner", {"a.en": b"a\n"}).read_bytes()
    path = pack(tmp_path / "archive", {"inner.zip": inner})
    with pytest.raises(DataError, match=r"inner\.zip: an archive inside an archive"):
        read_files([TextFile(path, "both")])

    (tmp_path / "packed").write_bytes(gzip.compress(inner))
    with pytest.raises(DataError, match="a zip archive inside a gz file"):
        read_files([TextFile(tmp_path / "packed", "both")])


@ALL_PACKERS
@pytest.mark.parametrize("kept", [0.5, 0.95])
def test_a_truncated_archive_is_refused(pack: Packer, kept: float, tmp_path: Path, read_files: Reader) -> None:
    lines = "".join(f"line {number * 7919 % 10_007}\n" for number in range(10_000)).encode()
    path = pack(tmp_path / "archive", {"a.en": lines, "a.de": lines})
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    with pytest.raises(DataError, match="truncated or damaged"):
        read_files(sides(path))


def test_a_damaged_member_of_a_zip_is_refused(tmp_path: Path, read_files: Reader) -> None:
    path = zipped(tmp_path / "archive", {"a.tsv": b"".join(b"%d\t%d\n" % (n, n * n) for n in range(5000))})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"archive: a\.tsv: the zip file is truncated or damaged"):
        read_files([TextFile(path, "both")])


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_device_or_link_in_a_tar_is_refused(kind: bytes, tmp_path: Path, read_files: Reader) -> None:
    path = tmp_path / "archive.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("a.en")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
        archive.addfile(tarfile.TarInfo("a.de"))
    with pytest.raises(DataError, match=r"'a\.en' is a link, a device or a sparse file"):
        read_files(sides(path))


def test_a_link_in_a_zip_is_refused(tmp_path: Path, read_files: Reader) -> None:
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("a.tsv")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match=r"'a\.tsv' is a link or a device"):
        read_files([TextFile(path, "both")])


def test_a_member_under_a_password_is_refused(tmp_path: Path, read_files: Reader) -> None:
    path = zipped(tmp_path / "archive.zip", {"a.tsv": b"a\tb\n"})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="needs a password"):
        read_files([TextFile(path, "both")])


@PACKERS
def test_a_bomb_in_an_archive_is_refused(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    path = pack(tmp_path / "archive", {"a.tsv": b"a\tb" + b"\0" * 120_000_000})
    with pytest.raises(DataError, match=r"expand to more than .* not text"):
        read_files([TextFile(path, "both")])
