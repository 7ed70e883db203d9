"""The kind of a file is recognised by its content, and by its name where the content leaves a choice."""

import bz2
import gzip
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import polars as pl
import pytest

from nmt_core.errors import DataError
from nmt_core.formats import Kind, is_html, looks_like


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.en", "a\n")
    return file.getvalue()


def tarred() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.en"))
    return file.getvalue()


def parquet() -> bytes:
    file = io.BytesIO()
    pl.DataFrame({"en": ["a"]}).write_parquet(file)
    return file.getvalue()


TMX = b'<?xml version="1.0"?>\n<!-- a -->\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">'


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        (b"a\tb\n", ".tsv"),
        (gzip.compress(b"a\tb\n", mtime=0), ".tsv.gz"),
        (b"source,target\n", ".csv"),
        ("a\tb\n".encode("utf-16"), ".tsv"),
        ("a\tb\n".encode("utf-32"), ".tsv"),
        ("en\tde\nü\tß\n".encode("utf-16-le"), ".tsv"),
        ("你好吗\tdobrý den\n再见\tna shledanou\n".encode("utf-16-be"), ".tsv"),
        (b"a\tb\rc\td\r", ".tsv"),
        (b'[{"en": "a"}]', ".json"),
        (b'\n [\n {\n "en": "a"', ".json"),
        (b'[["a", "A"]]', ".json"),
        (b'{\n "data": [', ".json"),
        (b'{"data": [{"en": "a"}]}', ".json"),
        (b'\n\n{"en": "a"}\n', ".jsonl"),
        (b'{"en": "a"\n{"en": "b"}\n', ".jsonl"),
        (b"\n\na\tb\n", ".tsv"),
        (b'{"en": "a"}\n', ".jsonl"),
        (b'{"a\tb": "' + b"x" * 100_000, ".jsonl"),
        (TMX, ".tmx"),
        (bz2.compress(TMX), ".tmx.bz2"),
        (TMX.decode().encode("utf-16"), ".tmx"),
        (b'<xliff version="1.2">', ".xlf"),
        (b'<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0">', ".xlf"),
        (b"<dataset id='wmttest2022.de-en'>", ".xml"),
        (b'# a\n#, fuzzy\n\nmsgid ""\nmsgstr ""\n', ".po"),
        (b'#: file.c\r\nmsgctxt "menu"\r\n', ".po"),
        (b"\xde\x12\x04\x95" + bytes(24), ".mo"),
        (struct.pack(">I", 0x950412DE) + bytes(24), ".mo"),
        (parquet(), ".parquet"),
        (zipped(), ".zip"),
        (tarred(), ".tar"),
        (gzip.compress(tarred(), mtime=0), ".tar.gz"),
    ],
)
def test_the_content_says_what_a_file_is(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "corpus.part"
    path.write_bytes(content)

    assert looks_like(path).suffix == suffix


@pytest.mark.parametrize(
    "content",
    [b"a\tb\n", b'{"en": "a"}\n', b"a,b\n", b"<b>bold</b>\n", b"# a comment\n", b"\0\0", b"<!-- a -->" * 5000],
)
def test_lines_of_one_side_are_lines_whatever_is_in_them(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "corpus.csv"
    path.write_bytes(content)

    assert looks_like(path, "source").suffix == ".txt"


@pytest.mark.parametrize(
    "content",
    [
        b"<html>Press <b>Save</b></html>\nNext\n",
        b"<html>Press <b>Save</b>\nNext\n",
        b'<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.0//EN"><html><head><meta name="qrichtext" /></head><body>Hi'
        b"</body></html>\n<html><body>Next</body></html>\n",
    ],
)
def test_messages_of_programs_may_be_html(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)

    assert looks_like(path, "source").kind is Kind.LINES


PAGE = "<html lang='en'>\n<head>\n<title>404</title></head>\n<body>Not found</body></html>\n"


@pytest.mark.parametrize(
    "page",
    [
        PAGE,
        "<!DOCTYPE html>\n<!-- cached -->\n" + PAGE,
        PAGE.replace("\n", ""),
        PAGE.replace("\n", "") + "\n<!-- served by a -->\n<script>\nx = 1\n</script>\n",
        PAGE + "<img src='a'>\n",
        PAGE.replace("</html>", "more " * 20_000),
        "<!DOCTYPE html><title>404</title>",
        '<?xml version="1.0"?><html>\n<body>',
        "<html>\nnot found\n</html>",
        "<html>404</html>",
    ],
)
def test_an_html_page_is_no_side_of_a_corpus(page: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(page)
    with pytest.raises(DataError, match="file: an HTML page, not a corpus"):
        looks_like(path, "source")


@pytest.mark.parametrize("name", ["a.sgm", "b"])
def test_a_test_set_of_one_side(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b'<srcset setid="newstest2014" srclang="any">')

    assert looks_like(path, "target").kind is Kind.SGM
    with pytest.raises(DataError, match="holds one side"):
        looks_like(path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.csv", Kind.CSV), ("a.tsv.gz", Kind.TSV), ("a.TAB", Kind.TSV), ("a", Kind.TSV)],
)
def test_the_name_tells_tables_apart(name: str, kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "download"
    path.write_bytes(b"a,b\tc\n")

    assert looks_like(path, name=name).kind is kind


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"<!DOCTYPE html><title>404</title>", "an HTML page, not a corpus"),
        (gzip.compress(b"<html>", mtime=0), "an HTML page, not a corpus"),
        (b"7z\xbc\xaf\x27\x1c\x00", "a 7z archive.*unpack"),
        (b"%PDF-1.4", "a PDF document"),
        (b"<?xml version='1.0'?><rss>", "XML with the root element <rss>"),
        (b"one column\n", "holds one side of a corpus, not both"),
    ],
)
def test_what_is_no_corpus_is_refused_with_the_reason(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"file: {message}"):
        looks_like(path)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.ndjson", b"damaged\n", Kind.JSONL),
        ("a.json", b'{"en": "a"}\n', Kind.JSONL),
        ("a.json", b"[", Kind.JSON),
        ("a.jsonl", b'[{"en": "a"}]', Kind.JSON),
        ("a.tsv", b'{"a\tb\n', Kind.TSV),
        ("a.txt", b"en,de\na,b\n", Kind.CSV),
    ],
)
def test_suffix_and_content_decide_together(name: str, content: bytes, kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    assert looks_like(path).kind is kind


@pytest.mark.parametrize("content", [b"Hello, world\nYes, sir\n", b"Hello,world\nYes,sir\n", b"[Music]\n", b"{name}\n"])
def test_text_with_a_comma_or_a_bracket_is_no_table(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match="holds one side") as caught:
        looks_like(path)
    assert content.decode().split("\n")[0] in str(caught.value)


def test_a_file_with_both_sides_is_no_side(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(TMX)
    with pytest.raises(DataError, match=r"a \.tmx file holds both sides"):
        looks_like(path, "source")


@pytest.mark.parametrize(
    "page",
    ["<!DOCTYPE html><title>404</title>", "\n  <html lang='en'>", '<?xml version="1.0"?><html>', "<!-- a --><HTML>"],
)
def test_an_html_page_is_told_from_text(page: str) -> None:
    assert is_html(page.encode())
    assert not is_html(b"We say <html> here.\n")
