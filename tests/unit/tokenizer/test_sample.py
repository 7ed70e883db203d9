"""The sample is the same however the text is cut into shards."""

from pathlib import Path

import polars as pl
import pytest

from nmt_core.tokenizer.sample import Sample, count_pairs, text_shards


@pytest.fixture
def text() -> pl.DataFrame:
    return pl.DataFrame({"source": [f"s{i}" for i in range(5_000)], "target": [f"t{i}" for i in range(5_000)]})


def cut(text: pl.DataFrame, rows: int, folder: Path) -> tuple[Path, ...]:
    folder.mkdir()
    for number, start in enumerate(range(0, len(text), rows)):
        text.slice(start, rows).write_parquet(folder / f"train-{number:05d}.parquet", row_group_size=700)
    return text_shards(folder)


def test_what_is_drawn_depends_on_seed_and_place_alone(text: pl.DataFrame, tmp_path: Path) -> None:
    one, many = cut(text, 5_000, tmp_path / "one"), cut(text, 333, tmp_path / "many")
    drawn = list(Sample(one, 0.2, seed=1).lines("source"))
    assert list(Sample(many, 0.2, seed=1).lines("source")) == drawn
    assert list(Sample(many, 0.2, seed=2).lines("source")) != drawn
    assert sum(map(count_pairs, many)) == 5_000


def test_both_sides_are_of_the_same_pairs(text: pl.DataFrame, tmp_path: Path) -> None:
    sample = Sample(cut(text, 1_000, tmp_path / "text"), 0.2, seed=1)
    source, target = list(sample.lines("source")), list(sample.lines("target"))
    assert [line[1:] for line in source] == [line[1:] for line in target]
    assert len(source) == len(sample) == pytest.approx(1_000, rel=0.1)


def test_a_smaller_sample_is_part_of_a_larger(text: pl.DataFrame, tmp_path: Path) -> None:
    shards = cut(text, 1_000, tmp_path / "text")
    small, large = (set(Sample(shards, share, seed=1).lines("source")) for share in (0.1, 0.5))
    assert small < large


@pytest.mark.parametrize("share", [1.0, 7.5])
def test_all_is_drawn_where_all_is_wanted(text: pl.DataFrame, tmp_path: Path, share: float) -> None:
    assert list(Sample(cut(text, 1_000, tmp_path / "text"), share, 1).lines("target")) == text["target"].to_list()
