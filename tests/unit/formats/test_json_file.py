"""JSON files that are one value."""

import json
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt_core.errors import DataError
from nmt_core.formats import json_file

Reader = Callable[..., pl.DataFrame]

RECORDS = [{"en": "a", "de": "A"}, {"en": "b [, {", "de": 'B"}'}]
WAYS = {
    "an array": json.dumps(RECORDS),
    "an array over lines": json.dumps(RECORDS, indent=2),
    "an array after blank lines": "\n\n " + json.dumps(RECORDS),
    "a list in an object": json.dumps({"version": 1, "data": RECORDS}),
    "a list in an object over lines": json.dumps({"rows": RECORDS}, indent=1),
    "records in records": json.dumps([{"row": record} for record in RECORDS]),
    "columns": json.dumps({name: [record[name] for record in RECORDS] for name in ("en", "de")}),
    "columns of pandas": json.dumps({name: {"0": RECORDS[0][name], "1": RECORDS[1][name]} for name in ("en", "de")}),
    "arrays in an array": json.dumps([[record["en"], record["de"]] for record in RECORDS]),
    "lines": "".join(json.dumps(record) + "\n" for record in RECORDS),
}
PAIRS = [(record["en"], record["de"]) for record in RECORDS]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_which_a_file_holds_records(way: str, read_both: Reader) -> None:
    assert read_both("a.json", WAYS[way].encode()).select("source", "target").rows() == PAIRS
    assert read_both("a.json", WAYS[way].encode("utf-16")).select("source", "target").rows() == PAIRS


def test_a_single_object_over_lines_is_a_record(read_both: Reader) -> None:
    assert read_both("a.json", json.dumps(RECORDS[0], indent=1).encode()).rows() == [("a", "A", 1, None, None)]


@pytest.mark.parametrize(
    "bad", ['{"en": "x" "de": "X"}', '{"en": "x', "7", '"text"', '{"en": "x", "de": 5}', "{en: 1}"]
)
@pytest.mark.parametrize("block", [1, 1 << 21])
def test_a_damaged_record_costs_itself(
    bad: str, block: int, read_both: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_file, "BLOCK_BYTES", block)
    more = ", ".join(json.dumps({"en": f"s{number}", "de": f"t{number}"}) for number in range(50))
    table = read_both("a.json", f'[{{"en": "a", "de": "A"}}, {bad}, {more}]'.encode())

    faults = table["fault"].to_list()
    assert faults[0] is None and faults[1] in ("invalid_json", "no_text")
    assert table["source"].to_list()[-49:] == [f"s{number}" for number in range(1, 50)]
    assert set(faults[2:]) <= {None, "invalid_json"}


def test_an_array_without_an_end_is_refused(read_both: Reader) -> None:
    with pytest.raises(DataError, match="the JSON array has no end: fetch it again"):
        read_both("a.json", b'[{"en": "a", "de": "A"},')


def test_an_object_that_is_damaged_is_refused(read_both: Reader) -> None:
    with pytest.raises(DataError, match=r"a JSON object over several lines, and damaged .*: repair it"):
        read_both("a.json", b'{"en": "a",\n broken')


def test_several_lists_are_refused_with_their_names(read_both: Reader) -> None:
    with pytest.raises(DataError, match=r"several lists of records \(train, dev\)"):
        read_both("a.json", json.dumps({"train": RECORDS, "dev": RECORDS}).encode())


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20), st.booleans(), st.sampled_from([None, 1]))
def test_any_array_is_read_back(
    read_both: Reader, pairs: list[tuple[str, str]], is_ascii: bool, indent: int | None
) -> None:
    records = [{"en": source, "de": target} for source, target in pairs]
    content = json.dumps(records, ensure_ascii=is_ascii, indent=indent).encode()

    assert read_both("a.json", content).rows() == [(*pair, number, None, None) for number, pair in enumerate(pairs, 1)]
