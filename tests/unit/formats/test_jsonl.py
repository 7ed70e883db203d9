"""JSON and JSONL: columns by name, and lines that hold no pair."""

import json
from collections.abc import Callable

import polars as pl
import pytest

from nmt_core.errors import DataError

Reader = Callable[..., pl.DataFrame]


@pytest.mark.parametrize(
    ("record", "layout"),
    [
        ({"id": 1, "en": "a", "de": "A"}, {}),
        ({"translation": {"de": "A", "en": "a"}}, {}),
        ({"src": "a", "tgt": "A", "score": 0.5}, {}),
        ({"text.en": "a", "text.de": "A"}, {}),
        ({"text.en": "a", "x.y": {"de": "A"}}, {"source_column": "text.en"}),
        ({"src": "A", "tgt": "a"}, {"source_column": "tgt", "target_column": "src"}),
        ({"t": {"x": {"y": "a"}}, "u": "A"}, {"source_column": "t.x.y", "target_column": "2"}),
    ],
)
def test_columns_by_name(record: dict[str, object], layout: dict[str, str], read_both: Reader) -> None:
    content = json.dumps(record).encode() + b"\n"

    assert read_both("a", content, **layout).rows() == [("a", "A", 1, None, None)]


@pytest.mark.parametrize(
    ("line", "fault", "value"),
    [
        (b'{"en": "a"', "invalid_json", "Expecting ',' delimiter: line 1 column 11 (char 10)"),
        (b"", "invalid_json", "Expecting value: line 1 column 1 (char 0)"),
        (b'["a"]', "invalid_json", "not an object"),
        (b"[" * 90_000, "invalid_json", None),
        (b'{"en": "a"}', "missing_column", "de"),
        (b'{"en": "a", "de": null}', "missing_value", "de"),
        (b'{"en": "a", "de": 5}', "no_text", "de"),
        (b'{"en": "a", "de": "\\ud83d"}', "invalid_utf8", "half of a surrogate pair"),
        (b'{"en": "a", "de": "\\u0000"}', "null_byte", "byte 1"),
        (b'{"en": "a", "de": "\xff"}', "invalid_utf8", "byte 20: ff"),
    ],
)
def test_a_line_that_is_no_pair_is_a_fault_of_that_line(line: bytes, fault: str, value: str, read_both: Reader) -> None:
    good = b'{"en": "a", "de": "\\ud83d\\ude00"}\n'
    rows = read_both("a", good + line + b"\n" + good).select("target", "fault", "value").rows()

    assert rows[0] == rows[2] == ("😀", None, None)
    assert rows[1][1] == fault
    assert value in (None, rows[1][2])


@pytest.mark.parametrize(
    ("record", "layout", "message"),
    [
        ({"text": "a"}, {}, "no two columns are named after en and de, or source and target: there are text"),
        ({"en": "a", "de": "A"}, {"target_column": "3"}, "there is no column 3 among en, de"),
        ({"x": {}}, {}, "no two columns are named after en and de, or source and target: there are none"),
    ],
)
def test_a_first_object_with_too_few_fields_is_refused(
    record: dict[str, object], layout: dict[str, str], message: str, read_both: Reader
) -> None:
    with pytest.raises(DataError, match=rf"a: {message}: (set|correct) `source_column` and `target_column`"):
        read_both("a", json.dumps(record).encode() + b"\n", **layout)


def test_a_column_that_is_not_there_is_refused(read_both: Reader) -> None:
    with pytest.raises(DataError, match=r"no column 'text': there are translation\.en, id"):
        read_both("a", b'{"translation": {"en": "a"}, "id": 1}\n', source_column="text")


@pytest.mark.parametrize(
    ("first", "there"), [(b"{}", "none"), (b'{"error": "x"}', "error"), (b'{"id": 1, "en": "a"}', "id, en")]
)
def test_objects_without_the_columns_may_come_first(first: bytes, there: str, read_both: Reader) -> None:
    rows = (
        read_both("a.jsonl", first + b'\n{"en": "a", "de": "A"}\n', target_column="de").select("fault", "value").rows()
    )

    assert rows == [("missing_column", f"there are {there}"), (None, None)]
