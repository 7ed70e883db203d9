"""Test sets in SGM and XML."""

from collections.abc import Callable
from xml.sax.saxutils import escape

import polars as pl
import pytest

from nmt_core.errors import DataError

Pair = tuple[str, str]
Reader = Callable[..., pl.DataFrame]


def sgm(segments: list[str], kind: str = "srcset") -> bytes:
    body = "".join(f'<seg id="{number}">{text}</seg>\n' for number, text in enumerate(segments, 1))
    doc = f'<doc docid="d" origlang="de">\n<p>\n{body}</p>\n</doc>\n'
    return f'<{kind} setid="x" srclang="any">\n{doc}</{kind}>\n'.encode()


def rows_of(table: pl.DataFrame) -> list[tuple[str, ...]]:
    return table.select("source", "target", "fault", "value").rows()


def good(*pairs: Pair) -> list[tuple[str | None, ...]]:
    return [(*pair, None, None) for pair in pairs]


def test_sgm_sides_are_paired_in_order(read_sides: Reader, awkward: list[Pair]) -> None:
    source, target = ([escape(pair[side]) for pair in awkward] for side in (0, 1))

    assert rows_of(read_sides(sgm(source), sgm(target, "refset"))) == good(*awkward)


def test_sgm_is_not_xml(read_sides: Reader) -> None:
    segments = ["R&D costs < 5 & more", "&amp;lt; &#228; &copy", " two\n  lines "]
    table = read_sides(sgm(segments).replace(b"<seg", b"<SEG"), b"x\ny\nz\n")

    assert table["source"].to_list() == ["R&D costs < 5 & more", "&lt; ä &copy", "two lines"]


def test_sgm_faults_and_counts(read_sides: Reader) -> None:
    table = read_sides(sgm(["a", "b", "c" * 200]).replace(b">a<", b">\xff<"), b"A\nB\nC\n", max_line_bytes=150)

    assert table.select("fault", "value").rows() == [
        ("invalid_utf8", "byte 1: ff"),
        (None, None),
        ("too_long_line", "200"),
    ]
    with pytest.raises(DataError, match=r"side\.en has 2 lines and \S*side\.de has 1:"):
        read_sides(sgm(["a", "b"]), sgm(["A"]))


WMT = """<?xml version='1.0' encoding='utf-8'?><dataset id="wmttest"><collection id="general">
<doc origlang="en" id="1" domain="news">
<src lang="en"><p><seg id="1">One &amp; two.</seg></p><p><seg id="2">Three.</seg><seg id="3">Four.</seg></p></src>
<ref lang="de" translator="A"><p><seg id="2">Drei.</seg><seg id="1">Eins.</seg></p></ref>
<ref lang="de" translator="B"><p><seg id="1">B1</seg><seg id="2">B2</seg></p></ref>
<hyp system="s" language="de"><p><seg id="1">H1</seg></p></hyp></doc>
<doc id="2"><src lang="en"><p><seg id="1">Lone.</seg></p></src></doc></collection></dataset>"""


def test_xml_with_both_sides_is_paired_by_segment(read_both: Reader) -> None:
    table = read_both("a", WMT.encode())

    assert table["line"].to_list() == [1, 2, 3, 4]
    assert rows_of(table) == [
        *good(("One & two.", "Eins."), ("Three.", "Drei.")),
        ("Four.", "", "untranslated", "segment 3"),
        ("Lone.", "", "missing_language", "only en"),
    ]


def test_segments_with_the_same_id_are_rows_of_their_own(read_both: Reader) -> None:
    twice = WMT.replace('<seg id="3">', '<seg id="2">').replace(
        '<seg id="2">Drei.', '<seg id="2">Drei.</seg><seg id="2">Vier.'
    )
    once = WMT.replace('<seg id="3">', '<seg id="1">')
    unnamed = WMT.replace('<seg id="2">Three.', '<seg id="2">Two.</seg><seg>Three.')

    assert rows_of(read_both("a", twice.encode()))[:3] == good(
        ("One & two.", "Eins."), ("Three.", "Drei."), ("Four.", "Vier.")
    )
    assert rows_of(read_both("a", once.encode()))[2] == ("Four.", "", "untranslated", "segment 1")
    assert {row[0] for row in rows_of(read_both("a", unnamed.encode()))} == {
        "One & two.",
        "Two.",
        "Three.",
        "Four.",
        "Lone.",
    }


def test_xml_may_be_read_backward(read_both: Reader) -> None:
    table = read_both("a", WMT.encode(), source_language="de", target_language="en")

    assert sorted(table.filter(pl.col("fault").is_null()).select("source", "target").rows()) == [
        ("Drei.", "Three."), ("Eins.", "One & two."),
    ]  # fmt: skip
