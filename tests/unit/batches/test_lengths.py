"""Lengths of pairs are counted without storing them, and the forecast of padding equals the padding of the plan."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nmt_core.batches import lengths
from nmt_core.batches.lengths import PairCounts, count_sizes, histogram, useful_token_share
from nmt_core.batches.plan import Capacity, pack_micro_batches, packed_capacity, pad_micro_batches

SIZES = arrays.arrays(np.int64, st.tuples(st.integers(1, 50), st.just(2)), elements=st.integers(1, 1_024))


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


def test_the_share_equals_the_micro_batches() -> None:
    draw = np.random.default_rng(1)
    lengths_N2 = draw.integers(1, 100, (3_000, 2))
    shares, capacity = useful_token_share(count_sizes(lengths_N2)), Capacity(2_048, 2_048)
    padded = sum(
        lengths_N2[rows].max(axis=0).sum() * len(rows) for rows in pad_micro_batches(lengths_N2, capacity, draw)
    )
    assert shares["padded 2048"] == pytest.approx(lengths_N2.sum() / padded, abs=0.01)  # another draw
    capacity = packed_capacity(2_048, lengths_N2.sum(axis=0))
    streams = len(pack_micro_batches(lengths_N2, capacity, draw)) * (capacity.source + capacity.target)
    assert shares["packed 2048"] == pytest.approx(lengths_N2.sum() / streams, abs=0.01)
    assert 0 < shares["padded 2048"] < shares["packed 2048"] < 1


def test_equal_lengths_need_no_padding_and_small_micro_batches_are_left_out() -> None:
    shares = useful_token_share(PairCounts({(4_096, 4_096): 48}))
    assert shares == {f"{kind} {size}": 1.0 for kind in ("padded", "packed") for size in (4_096, 8_192, 16_384)}


def test_many_pairs_are_planned_by_a_few_like_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths_N2 = np.random.default_rng(1).integers(1, 60, (160_000, 2))
    whole = useful_token_share(count_sizes(lengths_N2))
    monkeypatch.setattr(lengths, "_FORECAST_PAIRS", 50_000)
    fewer = useful_token_share(count_sizes(lengths_N2))
    assert fewer.keys() == whole.keys()
    assert fewer != whole
    assert fewer == pytest.approx(whole, abs=0.02)
