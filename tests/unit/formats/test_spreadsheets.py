"""Workbooks of Excel, as AI-Hub distributes Korean-English text, and its tables and JSON files."""

import io
import json
import sys
import zipfile
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from openpyxl import Workbook
from support.facts import raises

from nmt_core.advice.declared import declared
from nmt_core.config import LanguagesConfig
from nmt_core.errors import ConfigError, DataError
from nmt_core.formats import Kind, Layout, TextFile, json_file, looks_like, read_side, spreadsheets
from nmt_core.recipes.recipe import load_recipe

Reader = Callable[..., pl.DataFrame]

PAIRS = [("나는 학생이다.", "I am a student."), ("오늘은 비가 온다.", "It rains today.")]
HEADER = ["SID", "원문", "번역문"]
KOREAN = {"source_language": "ko", "target_language": "en"}
FAULTY = [
    [3, None, "no source"],
    [4, "번역 없음"],
    [],
    [5, "두 줄\n", "two _x000D_lines"],
    [6, "#N/A", "an error"],
    [7, "날짜", date(2024, 5, 1)],
    [8, 2019, 3.0],
    [9, "참", True],
    [10, "길다" * 100, "long"],
    [11, "널", "a_x0000_b"],
]


def workbook(rows: Sequence[Sequence[Any]], title: str = "Sheet", *more: Sequence[Any]) -> bytes:
    """Return a workbook whose first sheet has these rows, and the second one `more`."""
    book = Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    if more:
        second = book.create_sheet("second")
        for row in more:
            second.append(row)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


_PARTS = {
    "[Content_Types].xml": """<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Override PartName="/xl/workbook.xml"
 ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>
<Override PartName="/xl/worksheets/sheet1.xml"
 ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>
<Override PartName="/xl/sharedStrings.xml"
 ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"/></Types>""",
    "_rels/.rels": """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="r1" Target="xl/workbook.xml"
 Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>""",
    "xl/workbook.xml": """<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"
 xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">
<sheets><sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>""",
    "xl/_rels/workbook.xml.rels": """<Relationships
 xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="r1" Target="worksheets/sheet1.xml"
 Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"/>
<Relationship Id="r2" Target="sharedStrings.xml"
 Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"/></Relationships>""",
}


def by_excel(texts: Sequence[str], rows: Sequence[str], dimension: str = "A1:C3") -> bytes:
    """Return a workbook as Excel writes it: rows refer to a table of texts."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    parts = _PARTS | {
        "xl/sharedStrings.xml": f"<sst {main}>{''.join(f'<si>{text}</si>' for text in texts)}</sst>",
        "xl/worksheets/sheet1.xml": f'<worksheet {main}><dimension ref="{dimension}"/>'
        f"<sheetData>{''.join(rows)}</sheetData></worksheet>",
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return content.getvalue()


def aihub(rows: Sequence[Sequence[Any]] = ()) -> bytes:
    return workbook([HEADER, *([n, *pair] for n, pair in enumerate(PAIRS, 1)), *rows], "번역", ["other", "sheet"])


@pytest.mark.parametrize("columns", [{}, {"source_column": "원문", "target_column": "번역문"}, {"source_column": "2"}])
def test_the_first_sheet_is_read(columns: dict[str, str], read_both: Reader) -> None:
    notes: list[str] = []
    if "source_column" in columns and "target_column" not in columns:
        columns = columns | {"target_column": "번역문"}
    table = read_both("a.xlsx", aihub(), **KOREAN, **columns, note=notes.append)
    assert table.rows() == [(*pair, n, None, None) for n, pair in enumerate(PAIRS, 1)]
    assert notes == ([] if columns else ["took '원문' as source and '번역문' as target; not used: SID"])


def test_rows_that_cannot_be_used_are_counted_with_reasons(read_both: Reader) -> None:
    table = read_both("a.xlsx", aihub(FAULTY), **KOREAN, max_line_bytes=300)
    assert table.select("source", "target", "fault", "value").rows()[2:] == [
        ("3,,no source", "", "missing_value", "원문"),
        ("4,번역 없음", "", "missing_value", "번역문"),
        ("", "", "missing_value", "원문"),
        ("두 줄\n", "two \rlines", None, None),
        ("6,,an error", "", "no_text", "원문"),
        ("7,날짜,", "", "no_text", "번역문"),
        ("2019", "3", None, None),
        ("9,참,", "", "no_text", "번역문"),
        (table["source"][10], "long", "too_long_line", "600"),
        ("널", "a\0b", "null_byte", "byte 2"),
    ]
    assert table["line"].to_list() == list(range(1, 13))


def test_a_sheet_without_names_has_text_in_its_columns(read_both: Reader) -> None:
    table = read_both("a.xlsx", workbook([[], [1, *PAIRS[0]], [2, *PAIRS[1]]]), **KOREAN)
    assert table.filter(pl.col("fault").is_null()).select("source", "target").rows() == PAIRS


def test_the_content_tells_a_workbook_from_an_archive(tmp_path: Path, read_both: Reader) -> None:
    (tmp_path / "unnamed").write_bytes(aihub())
    assert looks_like(tmp_path / "unnamed").kind is Kind.XLSX
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("xl/words.tsv", "원문\t번역문\n" + "".join(f"{one}\t{two}\n" for one, two in PAIRS))
    assert looks_like(tmp_path / "a.zip").kind is Kind.ZIP
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w") as archive:
        archive.writestr("1_구어체(1).xlsx", aihub())
    assert read_both("b.zip", archived.getvalue(), **KOREAN)["target"].to_list() == [pair[1] for pair in PAIRS]


def test_one_side_is_read_alone_and_columns_name_the_languages(tmp_path: Path) -> None:
    file = tmp_path / "a.xlsx"
    file.write_bytes(workbook([["한국어", "영어"], *PAIRS, ["", None]]))
    assert declared(file) == ("ko", "en")
    tables = read_side([(TextFile(file, "target"), "a.xlsx")], Layout("ko", "en"), "영어")
    assert pl.concat(tables)["target"].to_list() == [PAIRS[0][1], PAIRS[1][1], ""]


def test_a_workbook_of_excel_refers_to_a_table_of_texts(read_both: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    rich = f"<r><t>{PAIRS[0][0][:3]}</t></r><r><rPr><b/></rPr><t>{PAIRS[0][0][3:]}</t></r>"
    texts = ["<t>원문</t>", "<t>번역문</t>", rich, f"<t>{PAIRS[0][1]}</t>", f"<t>{PAIRS[1][1]}</t>"]
    rows = [
        '<row r="1"><c r="B1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row>',
        '<row r="3"><c r="A3"><v>7</v></c><c r="B3" t="s"><v>2</v></c><c r="C3" t="s"><v>3</v></c></row>',
        f'<row r="4"><c r="B4" t="inlineStr"><is><t>{PAIRS[1][0]}</t></is></c><c r="C4" t="s"><v>4</v></c></row>',
    ]
    content = by_excel(texts, rows, dimension="A1")  # too small a dimension, as some programs write it
    table = read_both("a.xlsx", content, **KOREAN)
    assert table.filter(pl.col("fault").is_null()).select("source", "target").rows() == PAIRS
    assert table["fault"].to_list() == ["missing_value", None, None], "the second row is empty"
    monkeypatch.setattr(spreadsheets, "_MOST_TEXTS_BYTES", 100)
    with raises(DataError, "its table of texts has", "too large for memory: save the sheet as CSV"):
        read_both("a.xlsx", content, **KOREAN)


@pytest.mark.parametrize("cut", [200, -200])
def test_a_damaged_workbook_is_named(cut: int, read_both: Reader) -> None:
    with raises(DataError, "a.xlsx: the workbook is truncated or damaged", "fetch it again"):
        read_both("a.xlsx", aihub()[:cut], **KOREAN)


def test_damaged_xml_is_named(read_both: Reader, tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(aihub())) as old, zipfile.ZipFile(content, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            new.writestr(name, text[: len(text) // 2] if name == "xl/worksheets/sheet1.xml" else text)
    with raises(DataError, "a.xlsx: the workbook is truncated or damaged"):
        read_both("a.xlsx", content.getvalue(), **KOREAN)


def test_a_workbook_that_expands_out_of_proportion_is_refused(
    read_both: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = aihub([[n, "가" * 5_000, "a" * 5_000] for n in range(20)])
    monkeypatch.setattr(spreadsheets, "_FREE_BYTES", 1_000)
    monkeypatch.setattr(spreadsheets, "_MOST_TIMES", 20)
    with raises(DataError, "a.xlsx: its member xl/", "expands to", "save the sheet as CSV"):
        read_both("a.xlsx", content, **KOREAN)


def test_a_missing_package_is_named(read_both: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with raises(ConfigError, "a.xlsx: reading a workbook needs", r"nmt-pipeline\[xlsx\]", "save the sheet as CSV"):
        read_both("a.xlsx", aihub(), **KOREAN)


def test_the_recipe_finds_the_columns_of_each_form(read_both: Reader) -> None:
    config = load_recipe("aihub-ko-en")
    corpus, languages = config.corpus.train[0], config.languages
    assert languages == LanguagesConfig(source="ko", target="en")
    named = KOREAN | {"source_column": corpus.source_column, "target_column": corpus.target_column}
    assert read_both("a.xlsx", aihub(), **named).select("source", "target").rows() == PAIRS
    lines = "".join(f'{n},"{one}","{two}"\r\n' for n, (one, two) in enumerate(PAIRS, 1))
    text = f"{','.join(HEADER)}\r\n{lines}"
    assert read_both("a.csv", text.encode("utf-8-sig"), **named).select("source", "target").rows() == PAIRS
    old = read_both("b.csv", text.encode("cp949"), **named, encoding="cp949")
    assert old.select("source", "target").rows() == PAIRS
    records = [{"sn": f"ECOBB{n}", "ko": one, "en": two, "domain": "x"} for n, (one, two) in enumerate(PAIRS)]
    for indent in (None, 4):
        content = json.dumps({"data": records}, ensure_ascii=False, indent=indent).encode("utf-8-sig")
        assert read_both("a.json", content, **KOREAN).select("source", "target").rows() == PAIRS


@pytest.mark.parametrize("block", [1, 1 << 21])
@pytest.mark.parametrize("after", ["", ', "count": 3, "more": {"a": [1]}'])
def test_an_array_in_an_object_is_read_record_by_record(
    after: str, block: int, read_both: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_file, "BLOCK_BYTES", block)
    monkeypatch.setattr(json_file, "_MOST_BYTES", 1_000)  # a file that must be read whole would be refused
    records = [{"ko": f"문장 {number}", "en": f"sentence {number}"} for number in range(100)]
    inner = ",\n".join(json.dumps(record) for record in records).replace('"sentence 7"', '"sentence 7" "x"')
    content = f'{{"version": "1 \\" [{{", "n": 1.5e3, "data": [{inner}]{after}}}'.encode()
    table = read_both("a.json", content, **KOREAN)
    assert table["fault"].to_list().count("invalid_json") == 1 and table["fault"][7] == "invalid_json"
    kept = table.filter(pl.col("fault").is_null())["target"].to_list()
    assert kept == [record["en"] for number, record in enumerate(records) if number != 7]


@pytest.mark.parametrize(
    ("after", "facts"),
    [
        ("", ["the JSON object with the records 'data' is damaged behind them"]),
        (', "x": 1', ["is damaged behind them"]),
        (', "other": [{"ko": "a"}]}', [r"several lists of records \(data, other\): write the one to read"]),
        (', "rest": "' + "x" * 2_000_000 + '"}', ["more than 1,048,576 characters follow"]),
    ],
)
def test_what_follows_an_array_of_records_is_checked(after: str, facts: list[str], read_both: Reader) -> None:
    with raises(DataError, "a.json: ", *facts):
        read_both("a.json", ('{"data": [{"ko": "가", "en": "a"}]' + after).encode(), **KOREAN)
