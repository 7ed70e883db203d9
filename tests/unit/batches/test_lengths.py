"""Lengths of pairs are counted without keeping them, and padding is foretold as the plan of batches makes it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nmt_core.batches import lengths
from nmt_core.batches.lengths import PairCounts, count_sizes, histogram, useful_token_share
from nmt_core.batches.plan import plan_epoch

SIZES = arrays.arrays(np.int64, st.tuples(st.integers(1, 50), st.just(2)), elements=st.integers(1, 1_024))


@settings(deadline=None)
@given(SIZES)
def test_every_pair_is_counted_once(lengths_N2: np.ndarray) -> None:
    counted = count_sizes(lengths_N2)
    assert sorted(counted.elements()) == sorted(map(tuple, lengths_N2.tolist()))
    bins = histogram(counted)
    for number, side in enumerate(("source", "target")):
        assert sum(getattr(row, side) for row in bins) == len(lengths_N2)
        for row in bins:
            least, most = map(int, row.tokens.split("-"))
            inside = (lengths_N2[:, number] >= least) & (lengths_N2[:, number] <= most)
            assert getattr(row, side) == inside.sum()
    assert bins[-1].source + bins[-1].target > 0


def test_nothing_is_counted_as_nothing() -> None:
    assert count_sizes(np.empty((0, 2), np.int64)) == PairCounts()


def test_the_share_is_that_of_the_plan() -> None:
    draw = np.random.default_rng(1)
    lengths_N2 = draw.integers(1, 100, (3_000, 2))
    batches = plan_epoch(lengths_N2, 2_000, seed=0, epoch=0)
    padded = sum(lengths_N2[batch].max(axis=0).sum() * len(batch) for batch in batches)
    shares = useful_token_share(count_sizes(lengths_N2))
    assert shares["2000"] == pytest.approx(lengths_N2.sum() / padded, abs=0.01)  # the plan's draw differs
    assert 0 < shares["2000"] < 1


def test_equal_lengths_need_no_padding_and_short_budgets_are_left_out() -> None:
    assert useful_token_share(PairCounts({(2_001, 2_001): 50})) == {"8000": 1.0, "25000": 1.0, "100000": 1.0}


def test_many_pairs_are_planned_by_a_few_like_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths_N2 = np.random.default_rng(1).integers(1, 60, (40_000, 2))
    whole = useful_token_share(count_sizes(lengths_N2))
    planned: list[int] = []

    def counting(lengths_N2: np.ndarray, *arguments: Any, **more: Any) -> list[np.ndarray]:
        planned.append(len(lengths_N2))
        return plan_epoch(lengths_N2, *arguments, **more)

    monkeypatch.setattr(lengths, "_FORECAST_PAIRS", 20_000)
    monkeypatch.setattr(lengths, "plan_epoch", counting)
    fewer = useful_token_share(count_sizes(lengths_N2))
    assert set(planned) == {20_000}
    assert fewer["2000"] == pytest.approx(whole["2000"], abs=0.02)
