import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from nmt_core.corpus import formats
from nmt_core.errors import DataError

PACKERS: dict[str, Callable[[bytes], bytes]] = {".txt": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


def lines_of(folder: Path, content: bytes) -> list[str]:
    file = folder / "side"
    file.write_bytes(content)
    return formats.read_pairs(file, file)["source"].to_list()


@pytest.mark.parametrize("suffix", PACKERS)
def test_content_decides_how_a_file_is_packed_whatever_its_name(tmp_path: Path, suffix: str) -> None:
    content = 'ä "quoted\r\n\nlast line'.encode()
    file = tmp_path / "misleading.xz"
    file.write_bytes(PACKERS[suffix](content))

    assert formats.suffix_by_content(file) == suffix
    assert lines_of(tmp_path, PACKERS[suffix](content)) == ['ä "quoted', "", "last line"]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x00", "\r", "\t", '"', "'", "\\"])
def test_only_a_newline_ends_a_line(tmp_path: Path, character: str) -> None:
    assert lines_of(tmp_path, f"one{character}two\nthree\n".encode()) == [f"one{character}two", "three"]


def test_the_last_line_needs_no_newline_and_a_newline_starts_no_line(tmp_path: Path) -> None:
    assert lines_of(tmp_path, b"a\nb") == lines_of(tmp_path, b"a\nb\n") == ["a", "b"]
    assert lines_of(tmp_path, b"a\n\n") == ["a", ""]


def test_windows_line_ends_go(tmp_path: Path) -> None:
    assert lines_of(tmp_path, b"a\r\nb\r\n") == ["a", "b"]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    assert lines_of(tmp_path, "\ufeffa\n\ufeffb\n".encode()) == ["a", "\ufeffb"]


def test_members_of_a_gzip_file_follow_each_other(tmp_path: Path) -> None:
    assert lines_of(tmp_path, gzip.compress(b"a\n") + gzip.compress(b"b\n")) == ["a", "b"]


def test_lines_are_numbered_from_one(tmp_path: Path) -> None:
    source, target = tmp_path / "s[1]", tmp_path / "t*"
    source.write_text("a\nb\n", encoding="utf-8")
    target.write_text("c\nd\n", encoding="utf-8")

    assert formats.read_pairs(source, target).rows() == [("a", "c", 1), ("b", "d", 2)]


def test_unequal_files_are_refused_with_both_counts(tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("a\n" * 1200, encoding="utf-8")
    target.write_text("a\n" * 1199, encoding="utf-8")

    with pytest.raises(DataError, match=rf"{source} has 1,200 lines and {target} has 1,199"):
        formats.read_pairs(source, target)


@pytest.mark.parametrize(("suffix", "place"), [(".txt", "line 3"), (".gz", "line 3"), (".zst", "side: not valid")])
def test_invalid_utf8_is_refused_with_its_line(tmp_path: Path, suffix: str, place: str) -> None:
    with pytest.raises(DataError, match=rf"{place}.*UTF-8.*iconv"):
        lines_of(tmp_path, PACKERS[suffix](b"a\nb\nc\xff\n"))


@pytest.mark.parametrize(("suffix", "kind"), [(".gz", "gzip"), (".zst", "zstd")])
def test_a_truncated_file_is_refused(tmp_path: Path, suffix: str, kind: str) -> None:
    whole = PACKERS[suffix](b"".join(b"line %d\n" % n for n in range(10_000)))

    with pytest.raises(DataError, match=rf"side: the {kind} file is truncated or damaged.*fetch it again"):
        lines_of(tmp_path, whole[: len(whole) // 2])


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="side: the file is empty"):
        lines_of(tmp_path, b"")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="gone: no such file"):
        formats.read_pairs(tmp_path / "gone", tmp_path / "gone")


@pytest.mark.parametrize(("magic", "kind"), [(b"PK\x03\x04", "zip"), (b"\xfd7zXZ\x00", "xz"), (b"BZh9", "bzip2")])
def test_another_archive_is_refused_by_its_kind(tmp_path: Path, magic: bytes, kind: str) -> None:
    with pytest.raises(DataError, match=f"a {kind} archive: unpack it"):
        lines_of(tmp_path, magic + b"\x00" * 100)


@pytest.mark.parametrize(
    "page", ["<!DOCTYPE html><title>404</title>", "\n  <html lang='en'>", '<?xml version="1.0"?><html>']
)
def test_an_html_page_is_told_from_text(tmp_path: Path, page: str) -> None:
    file = tmp_path / "page"
    file.write_text(page, encoding="utf-8")
    assert formats.is_html(file)

    file.write_text("We say <html> here.\n", encoding="utf-8")
    assert not formats.is_html(file)
