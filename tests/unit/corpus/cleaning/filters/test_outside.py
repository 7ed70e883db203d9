"""Filters and scorers from outside of the package."""

import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from nmt_core.errors import ConfigError

Judge = Callable[..., pl.DataFrame]
PAIRS = [("A dog barks.", "Ein Hund bellt."), ("A cat sleeps.", "Eine Katze schläft."), ("", "Nichts.")]
MODULE = """
import polars as pl

asked = []

def has_cat(pairs):
    asked.append(pairs.columns)
    return pairs["source"].str.contains("cat")

def length(pairs):
    asked.append(pairs["source"].to_list())
    return pairs["target"].str.len_chars()

def gaps(pairs):
    return pl.Series([None if "cat" in source else float("nan") for source in pairs["source"]], dtype=pl.Float64)

def short(pairs):
    return pl.Series([True])

def words(pairs):
    return pairs["source"]

constant = 1
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"others_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_a_function_that_drops(judged: Judge, module: str) -> None:
    table = judged(PAIRS, filters=[f"{module}:has_cat"])

    assert table["reason"].to_list() == [None, f"{module}:has_cat", "empty"]
    assert sys.modules[module].asked == [["source", "target"]]


def test_scores_are_kept_and_compared_with_thresholds(judged: Judge, module: str) -> None:
    scorer = f"{module}:length"
    table = judged(PAIRS, scores=[{"scorer": scorer}, {"scorer": scorer, "min_score": 16, "max_score": 30}])

    assert table["reason"].to_list() == [f"score:{scorer}", None, "empty"]
    assert table["value"].to_list() == ["15.0", None, "source"]
    assert table["score_0"].to_list() == [15, 19, None]
    assert table["score_1"].to_list() == [15, 19, None]
    assert table.schema["score_0"] == pl.Float64


def test_a_later_scorer_is_not_asked_of_what_went_before(judged: Judge, module: str) -> None:
    judged(PAIRS, filters=[f"{module}:has_cat"], scores=[{"scorer": f"{module}:length"}])

    assert sys.modules[module].asked[-1] == ["A dog barks."]


def test_a_score_at_the_threshold_is_kept_and_none_at_all_is_not(judged: Judge, module: str) -> None:
    at = judged(PAIRS[:1], scores=[{"scorer": f"{module}:length", "min_score": 15, "max_score": 15}])
    assert at["reason"].to_list() == [None]

    scorer = f"{module}:gaps"
    gaps = judged(PAIRS[:2], scores=[{"scorer": scorer, "min_score": 0}])
    assert gaps["reason"].to_list() == [f"score:{scorer}"] * 2
    assert judged(PAIRS[:2], scores=[{"scorer": scorer}])["reason"].to_list() == [None, None]


def test_what_returns_nonsense_is_named(judged: Judge, module: str) -> None:
    with pytest.raises(ConfigError, match=rf"clean\.filters: '{module}:short': returned 1 value for 2 pairs"):
        judged(PAIRS, filters=[f"{module}:short"])
    with pytest.raises(
        ConfigError, match=rf"clean\.filters: '{module}:length': returned values of type UInt32: .* true"
    ):
        judged(PAIRS, filters=[f"{module}:length"])
    with pytest.raises(
        ConfigError, match=rf"clean\.scores: '{module}:words': returned values of type String: .* number"
    ):
        judged(PAIRS, scores=[{"scorer": f"{module}:words"}])
