"""Rows of one language: one for each line or record."""

import json
import random
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.errors import DataError
from nmt_core.formats.columns import ROWS_LOOKED_AT
from nmt_core.formats.single import Cell, Columns, kind_by_name, read_single
from nmt_core.formats.streams import ByteStream, open_file


def cells_of(name: str, content: bytes, column: str = "", prefix: str = "") -> Iterator[Cell]:
    return read_single(ByteStream(name, BytesIO(content)), kind_by_name(name), Columns(column, prefix), 1 << 20)


def rows_of(name: str, content: bytes, column: str = "", prefix: str = "") -> list[str]:
    """Return the fault or the text of each row, after the prefix if it has one."""
    return [cell.fault or cell.prefix + cell.text for cell in cells_of(name, content, column, prefix)]


@pytest.mark.parametrize(
    ("lines", "column", "rows"),
    [
        (["{}", '{"text": "now"}', "{}"], "", ["missing_column", "now", "missing_column"]),
        (['{"error": "timeout"}', '{"text": "now"}'], "text", ["missing_column", "now"]),
        (['{"data": null}', '{"data": {"en": "now"}}'], "data.en", ["missing_column", "now"]),
        (["", '{"a', "3", '{"id": 1}', '{"source": "now"}'], "", [*["invalid_json"] * 3, "missing_column", "now"]),
        (['{"a":' * 600 + "1" + "}" * 600, '{"text": "now"}'], "text", ["invalid_json", "now"]),
        (["3", "null"], "", ["invalid_json", "invalid_json"]),
    ],
)
def test_objects_without_the_column_may_come_first(lines: list[str], column: str, rows: list[str]) -> None:
    assert rows_of("a.jsonl", "\n".join(lines).encode(), column) == rows


def test_objects_without_a_prefix_may_come_first() -> None:
    content = b'{"text": "now"}\n{"id": 1}\n{"p": "so ", "text": "now"}\n{"text": "now"}\n'
    assert rows_of("a.jsonl", content, "text", "p") == ["now", "missing_column", "so now", "now"]


BAD = ROWS_LOOKED_AT - 1
GIVEN_UP: dict[str, tuple[str, bytes, str, str, str]] = {
    "a misspelt name": (
        "a.jsonl",
        b'{}\n{"a": 1, "b": "now"}\n{"a": 1}\n',
        "txt",
        "",
        "no column 'txt': there are a, b;",
    ),
    "no usual name": ("a.jsonl", b'{"a": 1}\n', "", "", "no column, or more than one, is called source or text"),
    "a misspelt prefix": ("a.jsonl", b'{"text": "now"}\n', "", "p", "no column 'p': there are text; .*--prefix-column"),
    "0 in TSV": ("a.tsv", b"now\tthe\n", "0", "", "no column 0: columns count from 1; give --column 1 for the first"),
    "0 in CSV": ("a.csv", b"now,the\n", "00", "", "no column 00: columns count from 1; give --column 1 for the first"),
    "prefix 0": ("a.tsv", b"now\tthe\n", "1", "0", "no column 0: columns count from 1; give --prefix-column 1"),
    "9 of 3 in TSV": (
        "a.tsv",
        b"a\n1\t2\t3\n\n" * 9,
        "9",
        "",
        "a.tsv: no column 9: there are 3; give --column a smaller",
    ),
    "9 of 3 in CSV": ("a.csv", b"\n1,2,3\n" * 9, "9", "", "a.csv: no column 9: there are 3; give --column a smaller"),
    "prefix 2 of 1": (
        "a.tsv",
        b"now\n" * 9,
        "1",
        "2",
        "no column 2: there is 1; give --prefix-column a smaller number",
    ),
}


@pytest.mark.parametrize("case", GIVEN_UP)
def test_a_column_that_no_row_has_is_refused(case: str) -> None:
    name, content, column, prefix, message = GIVEN_UP[case]
    with pytest.raises(DataError, match=message):
        rows_of(name, content, column, prefix)


@pytest.mark.parametrize(
    ("name", "bad", "good", "column"),
    [
        ("a.jsonl", b'{"a": 1}\n', b'{"text": "now"}\n', "text"),
        ("a.tsv", b"1\n", b"1\tnow\n", "2"),
        ("a.csv", b"1\n", b"1,now\n", "2"),
    ],
)
def test_a_column_is_waited_for_a_number_of_rows(name: str, bad: bytes, good: bytes, column: str) -> None:
    assert rows_of(name, bad * BAD + good, column) == ["missing_column"] * BAD + ["now"]
    with pytest.raises(DataError, match="no column"):
        rows_of(name, bad * (BAD + 1) + good, column)


def test_a_misspelt_column_is_refused_without_reading_on() -> None:
    stream = BytesIO(b'{"a": 1}\n' * 2_000_000)
    with pytest.raises(DataError, match="no column 'text': there are a"):
        list(read_single(ByteStream("a", stream), kind_by_name("a.jsonl"), Columns("text"), 1 << 20))
    assert stream.tell() < 4 << 20


def test_two_usual_columns_are_refused_at_once() -> None:
    with pytest.raises(DataError, match="more than one, is called source or text: there are text, source"):
        next(cells_of("a.jsonl", b'{"text": "a", "source": "b"}\n{"text": "a"}\n'))


HEADS = {"a.tsv": "Größe\ttext\n1\tnow\n", "a.csv": "Größe,text\n1,now\n", "b.csv": '"Größe";"text"\n"1";"now"\n'}


@pytest.mark.parametrize("name", HEADS)
def test_a_header_that_is_not_utf8_is_the_header(name: str) -> None:
    assert rows_of(name, HEADS[name].encode("latin-1"), "text") == ["now"]
    with pytest.raises(DataError, match=r"no column 'Größe': there are Gr\ufffd\ufffde, text"):
        rows_of(name, HEADS[name].encode("latin-1"), "Größe")


@pytest.mark.parametrize(
    ("name", "content", "column", "rows"),
    [
        ("a.txt", b"\xff\nnow\n", "", ["invalid_utf8", "now"]),
        ("a.tsv", b"1\n\xff\tx\n1\tnow\n", "2", ["missing_column", "invalid_utf8", "now"]),
        ("a.csv", b'1\n\xff,x\n"1\n1,now\n', "2", ["missing_column", "invalid_utf8", "invalid_csv", "now"]),
        ("a.tsv", b"id\ttext\n1\n\xff\tx\n1\tnow\n", "text", ["missing_column", "invalid_utf8", "now"]),
        ("a.csv", b"id,text\n\xff,x\n1\n1,now\n", "text", ["invalid_utf8", "missing_column", "now"]),
        (
            "a.jsonl",
            b'{"text": "\xff"}\n{"text": null}\n{"text": "now"}\n',
            "",
            ["invalid_utf8", "missing_value", "now"],
        ),
    ],
)
def test_a_bad_row_may_be_the_first(name: str, content: bytes, column: str, rows: list[str]) -> None:
    assert rows_of(name, content, column) == rows


FIELDS = st.text(st.sampled_from('ab,"\n ü나'), max_size=8)


@settings(max_examples=200)
@given(st.lists(st.tuples(FIELDS, st.lists(st.binary(min_size=1, max_size=2), max_size=3)), max_size=12), st.randoms())
def test_each_record_of_csv_is_a_row_whatever_bytes_are_in_it(
    fields: list[tuple[str, list[bytes]]], draw: random.Random
) -> None:
    """Bytes that are not UTF-8 are put into fields.

    Their rows keep all bytes of the record, and no other row is harmed.
    """
    records, expected = [b"id,text"], []
    for text, wrong in fields:
        content = text.encode().replace(b'"', b'""')
        for piece in wrong:
            place = draw.randrange(len(content) + 1)
            high = bytes(byte | 0x80 for byte in piece) + b"\xff"
            while place and content[place - 1 : place] == b'"':  # never between two quotes
                place -= 1
            content = content[:place] + high + content[place:]
        records.append(b'1,"' + content + b'"')
        expected.append((text, None, None) if not wrong else (None, "invalid_utf8", records[-1]))
    found = list(cells_of("a.csv", b"\n".join(records) + b"\n", "text"))
    assert [(cell.text if cell.fault is None else None, cell.fault, cell.raw) for cell in found] == expected


def test_half_a_surrogate_pair_keeps_the_bytes_of_its_line() -> None:
    line = json.dumps({"p": "나", "text": "\ud800abc"}).encode()
    assert [cell.raw for cell in cells_of("a.jsonl", line + b'\r\n{"text": "now"}\n')] == [line, None]


def test_a_prefix_in_parquet_that_is_not_utf8_keeps_its_bytes(tmp_path: Path) -> None:
    columns = {"text": [b"now", b"\xff", None, b"now"], "p": [b"\xfe", b"\xfe", b"\xfe", b"so "]}
    arrays = {name: pa.array(values).view(pa.binary()) for name, values in columns.items()}
    pq.write_table(pa.table(arrays), tmp_path / "in.parquet")
    with open_file(tmp_path / "in.parquet") as stream:
        cells = list(read_single(stream, kind_by_name("in.parquet"), Columns("text", "p"), 1 << 20))
    faults = ["invalid_utf8", "invalid_utf8", "missing_value", None]
    assert [(cell.fault, cell.raw) for cell in cells] == list(zip(faults, [b"\xfe", b"\xff", None, None], strict=True))
