"""Damage to a file: its rows are read, or a DataError names the fault. Nothing else happens."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt_core.errors import DataError
from nmt_core.formats import Layout, TextFile, read
from nmt_core.formats.rows import PAIR_SCHEMA

Bytes = Callable[[bytes], bytes]

TMX = """<?xml version="1.0" encoding="{}"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header/><body>
<tu><tuv xml:lang="en"><seg>a &amp; <ph>x</ph>b</seg></tuv>
<tuv xml:lang="de"><seg>A &#228;</seg></tuv></tu></body></tmx>
"""
XLIFF = """<xliff version="1.2"><file source-language="en" target-language="de"><body>
<trans-unit id="1"><source>a</source>
<target state="final">A</target></trans-unit></body></file></xliff>"""
TEST_SET = """<?xml version='1.0' encoding='utf-8'?><dataset id="wmt"><doc id="1">
<src lang="en"><p><seg id="1">a</seg></p></src>
<ref lang="de"><p><seg id="1">A</seg></p></ref></doc></dataset>"""
PO = r"""# a
msgid ""
msgstr "Language: de\nContent-Type: text/plain; charset=ISO-8859-1\n"

#, fuzzy
msgctxt "m"
msgid "a \"b\"\n\101\x42"
msgid_plural "as"
msgstr[0] "A"
#~| msgid "o"
#~ msgid "c"
#~ msgstr "C"
"""
MO = bytes.fromhex("de120495 00000000 02000000 1c000000 2c000000 00000000 00000000") + bytes.fromhex(
    "00000000 3c000000 01000000 3d000000 19000000 3f000000 01000000 59000000"
)
MO += b"\0a\0" + b"text/plain; charset=UTF-8\n\0A\0"


def parquet() -> bytes:
    file = io.BytesIO()
    pl.DataFrame({"en": ["a", "b"], "translation": [{"de": "A"}, {"de": None}]}).write_parquet(file)
    return file.getvalue()


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README", "x")
        archive.writestr("a.en", content)
    return file.getvalue()


def tarred(content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("ä" * 60 + ".en")  # too long for a header: a header before the header
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


WHOLE = {
    "tsv": b"en\tde\na\tA\n\nb\tB\tC\r\n\xff\tD\n",
    "csv": b'en;de\n"a, b";"A ""x"""\nb;B\n',
    "jsonl": b'{"id": 1, "x": {"en": "a"}, "de": "\\u00e4"}\n{"x": {"en": "b"}, "de": null}\n',
    "tmx": TMX.format("UTF-8").encode(),
    "tmx in EUC-KR": TMX.format("EUC-KR").encode(),
    "tmx in UTF-16": TMX.format("UTF-16").encode("utf-16"),
    "xliff": XLIFF.encode(),
    "test set": TEST_SET.encode(),
    "po": PO.encode(),
    "mo": MO,
    "parquet": parquet(),
}
SIDES = {
    "lines": b"a\nb\r\n\xe4\n",
    "sgm": b'<srcset setid="x"><doc><seg id="1">a &amp; b</seg>\n<seg>c</seg></doc></srcset>',
}
PACKED: dict[str, Bytes] = {
    "plain": bytes,
    "gz": gzip.compress,
    "zst": zstandard.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zip": zipped,
    "tar": tarred,
    "tar.gz": lambda content: gzip.compress(tarred(content)),
}
OF_NOTE = [
    b"",
    b"\0",
    b"\n",
    b'"',
    b"<",
    b">",
    b"&",
    b"\xff",
    b"\t",
    b"{",
    b"]]>",
    b"\xef\xbb\xbf",
    b"9" * 20,
    b"x" * 3000,
]


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the same bytes, cut, flipped, dropped, doubled or with others among them."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 20)))
        match draw(st.sampled_from(["cut", "flip", "drop", "double", "insert"])):
            case "cut":
                content = content[:start]
            case "flip" if start < len(content):
                flipped = bytes([content[start] ^ 1 << draw(st.integers(0, 7))])
                content = content[:start] + flipped + content[start + 1 :]
            case "drop":
                content = content[:start] + content[end:]
            case "double":
                content = content[:end] + content[start:]
            case "insert":
                more = draw(st.sampled_from(OF_NOTE) | st.binary(max_size=8))
                content = content[:start] + more + content[start:]
    return content


def rows_or_reason(files: list[TextFile]) -> None:
    layout = Layout("en", "de", max_line_bytes=1000)
    try:
        tables = list(read(files, layout))
    except DataError as error:
        assert str(files[0].path.parent) in str(error)
        return
    rows = pl.concat(tables)
    assert rows.select(*PAIR_SCHEMA).schema == PAIR_SCHEMA
    assert rows["source"].null_count() == rows["target"].null_count() == 0
    assert rows["line"].to_list() == list(range(1, rows.height + 1))


@st.composite
def damaged_files(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the content, packed in any way.

    Either of the two was damaged, but not both, or hardly anything would be left.
    """
    pack = PACKED[draw(st.sampled_from(sorted(PACKED)))]
    if draw(st.booleans()):
        return pack(draw(damaged(content)))
    return draw(damaged(pack(content)))


ANY_DAMAGE = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("name", WHOLE)
@ANY_DAMAGE
@given(st.data())
def test_a_damaged_file_gives_rows_or_a_reason(name: str, tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / f"corpus.{name}"
    path.write_bytes(data.draw(damaged_files(WHOLE[name])))
    rows_or_reason([TextFile(path, "both")])


@pytest.mark.parametrize("name", SIDES)
@ANY_DAMAGE
@given(st.data())
def test_a_damaged_side_gives_rows_or_a_reason(name: str, tmp_path: Path, data: st.DataObject) -> None:
    source, target = tmp_path / "side.en", tmp_path / "side.de"
    source.write_bytes(data.draw(damaged_files(SIDES[name])))
    target.write_bytes(b"A\nB\nC\n")
    rows_or_reason([TextFile(source, "source"), TextFile(target, "target")])
