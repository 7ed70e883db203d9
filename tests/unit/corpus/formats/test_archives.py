import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest

from nmt_core.corpus.formats import TextFile
from nmt_core.errors import DataError

Reader = Callable[..., pl.DataFrame]
Members = Mapping[str, bytes]


def zipped(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


PACKERS = pytest.mark.parametrize("pack", [zipped, tarred])
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


@PACKERS
def test_members_are_read_in_the_order_of_their_names(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    members = {f"part{number}.{side}": f"{side}{number}\n".encode() for number in (2, 0, 1) for side in ("de", "en")}
    path = pack(tmp_path / "archive", members)

    assert pairs_of(read_files(sides(path))) == [("en0", "de0"), ("en1", "de1"), ("en2", "de2")]
    assert pairs_of(read_files(sides(path, "part[02].en", "*[12].de"))) == [("en0", "de1"), ("en2", "de2")]


@PACKERS
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


@PACKERS
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
    with pytest.raises(DataError, match="under a password"):
        read_files([TextFile(path, "both")])


@PACKERS
def test_a_bomb_in_an_archive_is_refused(pack: Packer, tmp_path: Path, read_files: Reader) -> None:
    path = pack(tmp_path / "archive", {"a.tsv": b"a\tb" + b"\0" * 120_000_000})
    with pytest.raises(DataError, match=r"expand to more than .* no text"):
        read_files([TextFile(path, "both")])
