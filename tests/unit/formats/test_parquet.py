"""Parquet: columns, nested fields, and damaged files."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt_core.errors import DataError
from nmt_core.formats import parquet
from nmt_core.formats.columns import find_column
from nmt_core.formats.streams import open_file

Reader = Callable[..., pl.DataFrame]


def packed(table: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    table.write_parquet(file)
    return file.getvalue()


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20))
def test_any_rows_are_read_back(read_both: Reader, pairs: list[tuple[str, str]]) -> None:
    table = pl.DataFrame({"de": [pair[1] for pair in pairs], "en": [pair[0] for pair in pairs]})

    assert read_both("a", packed(table)).select("source", "target").rows() == pairs


def test_a_struct_with_languages_as_on_the_hub(read_both: Reader) -> None:
    table = pl.DataFrame({"id": ["1"], "translation": [{"de": "A", "en": "a"}]})

    assert read_both("a", packed(table)).rows() == [("a", "A", 1, None, None)]
    assert read_both("a", packed(table), source_column="translation.de", target_column="id").rows() == [
        ("A", "1", 1, None, None)
    ]


def test_a_column_with_a_dot_in_its_name(read_both: Reader) -> None:
    table = pl.DataFrame({"text.en": ["a"], "x.y": [{"de": "A"}]})

    assert read_both("a", packed(table)).rows() == [("a", "A", 1, None, None)]


def test_columns_of_categories_and_numbers_of_columns(read_both: Reader) -> None:
    table = pl.DataFrame({"src": ["a", "b", "a"], "tgt": ["A", "B", "C"]}, schema_overrides={"src": pl.Categorical})

    assert read_both("a", packed(table)).select("source", "target").rows() == [("a", "A"), ("b", "B"), ("a", "C")]
    with pytest.raises(DataError, match=r"a: there is no column 3 among src, tgt: correct `source_column`"):
        read_both("a", packed(table), target_column="3")


def test_faults_are_of_their_row(read_both: Reader) -> None:
    # What a careless writer calls a string: Arrow does not look.
    broken = pa.Array.from_buffers(pa.string(), 4, pa.array([b"ok", b"\xff", b"n\0", b"x" * 50]).buffers())
    file = io.BytesIO()
    pq.write_table(pa.table({"en": broken, "de": pa.array([None, "B", "C", "D"])}), file)

    rows = read_both("a", file.getvalue(), max_line_bytes=40).select("fault", "value").rows()
    assert rows == [
        ("missing_value", "de"), ("invalid_utf8", "byte 1: ff"), ("null_byte", "byte 2"), ("too_long_line", "50"),
    ]  # fmt: skip


def test_many_rows_are_read_in_their_order(read_both: Reader) -> None:
    table = pl.DataFrame({"en": [str(number) for number in range(70_000)]}).with_columns(de=pl.col("en"))
    rows = read_both("a", packed(table))

    assert rows["target"].to_list() == table["de"].to_list()
    assert rows["line"].to_list() == list(range(1, 70_001))


def test_a_truncated_damaged_or_packed_file_is_refused(read_both: Reader) -> None:
    content = packed(pl.DataFrame({"en": ["a"] * 1000, "de": ["b"] * 1000}))
    with pytest.raises(DataError, match="a: the Parquet file is truncated, damaged"):
        read_both("a", content[:-10])
    with pytest.raises(DataError, match="packed once more"):
        read_both("a", gzip.compress(content))


def test_columns_that_hold_no_text_are_refused(read_both: Reader) -> None:
    with pytest.raises(DataError, match=r"no text is in en: there are en, de"):
        read_both("a", packed(pl.DataFrame({"en": [1.5], "de": ["A"]})))


@pytest.mark.parametrize(("long", "most"), [(20_000, 50), (10, 256)])
def test_text_for_translation_is_read_by_the_row_and_by_the_byte(
    long: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_BYTES_AT_A_TIME", 1_000_000)
    texts = [f"{number} ".ljust(long, "x") for number in range(600)]
    pl.DataFrame({"other": ["y" * 1_000] * 600, "text": texts}).write_parquet(
        tmp_path / "a", compression="uncompressed", row_group_size=200
    )
    with open_file(tmp_path / "a") as stream:
        tables = list(parquet.read_columns(stream, lambda names, place: [find_column(names, "text", place)], 1 << 20))
    assert [text for table in tables for text in table["text"]] == texts
    assert max(table.height for table in tables) in range(most // 2, most + 1)


def test_a_text_that_is_stored_once_is_read_by_the_row(tmp_path: Path) -> None:
    texts = ["x" * 100_000] * 1_000
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "a")
    assert (tmp_path / "a").stat().st_size < 10_000
    with open_file(tmp_path / "a") as stream:
        heights = [table.height for table in parquet.read_columns(stream, lambda names, place: [0], 1 << 20)]
    assert sum(heights) == 1_000 and max(heights) <= 256
