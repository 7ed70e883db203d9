"""The plan of batches: complete, bounded, reproducible, and the same however many processes share it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.artifacts import Artifact
from nmt_core.batches.plan import cut_to_passes, plan_epoch, share_of_rank
from nmt_core.batches.shards import read_shards

MAX_TOKENS = 64
lengths = st.lists(st.tuples(st.integers(1, MAX_TOKENS), st.integers(1, MAX_TOKENS)), min_size=1, max_size=80).map(
    np.array
)
seeds = st.integers(0, 2**31)


@given(lengths, seeds, st.integers(0, 5), st.integers(MAX_TOKENS, 500))
def test_every_pair_is_in_one_batch_and_no_batch_is_too_large(
    lengths_N2: np.ndarray, seed: int, epoch: int, max_tokens: int
) -> None:
    plan = plan_epoch(lengths_N2, max_tokens, seed, epoch)
    assert sorted(np.concatenate(plan)) == list(range(len(lengths_N2)))
    for rows in plan:
        assert len(rows) > 0
        assert len(rows) * lengths_N2[rows].max() <= max_tokens  # either side, padding included


@given(lengths, seeds, st.integers(0, 5))
def test_the_plan_is_a_function_of_seed_and_epoch(lengths_N2: np.ndarray, seed: int, epoch: int) -> None:
    one, other = (plan_epoch(lengths_N2, 200, seed, epoch) for _ in range(2))
    assert [rows.tolist() for rows in one] == [rows.tolist() for rows in other]


@given(seeds)
def test_epochs_and_seeds_differ(seed: int) -> None:
    lengths_N2 = np.random.default_rng(1).integers(1, 8, (200, 2))
    plans = [
        [rows.tolist() for rows in plan_epoch(lengths_N2, 64, *key)] for key in ((seed, 0), (seed, 1), (seed + 1, 0))
    ]
    assert plans[0] != plans[1] != plans[2] != plans[0]
    together = [{tuple(sorted(rows)) for rows in plan} for plan in plans]
    assert together[0] != together[1], "of equally long pairs others must meet"


def test_batches_come_in_no_order_of_length() -> None:
    lengths_N2 = np.random.default_rng(1).integers(1, MAX_TOKENS, (2_000, 2))
    longest = [lengths_N2[rows].max() for rows in plan_epoch(lengths_N2, 200, 1, 0)]
    assert abs(np.corrcoef(longest, range(len(longest)))[0, 1]) < 0.2


def test_little_is_lost_to_padding(tiny: dict[str, Artifact]) -> None:
    pairs = read_shards([tiny["encode"].path / "train-00000.parquet"])
    lengths_N2 = np.stack([pairs.source.lengths, pairs.target.lengths], axis=1)
    padded = sum(len(rows) * lengths_N2[rows].max(axis=0).sum() for rows in plan_epoch(lengths_N2, 512, 1, 0))
    at_random = sum(
        len(rows) * lengths_N2[rows].max(axis=0).sum() for rows in np.array_split(np.arange(len(pairs)), 60)
    )
    share = lengths_N2.sum() / padded
    assert 0.85 < share < 1
    assert share > 1.3 * lengths_N2.sum() / at_random


@given(st.integers(1, 50), st.integers(1, 8))
def test_the_shares_of_the_processes_make_the_batch(rows: int, processes: int) -> None:
    batch = np.random.default_rng(rows).permutation(rows)
    shares = [share_of_rank(batch, rank, processes) for rank in range(processes)]
    assert sorted(np.concatenate(shares)) == list(range(rows))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 50), st.integers(1, 20), st.integers(20, 100))
def test_passes_are_bounded_and_complete(count: int, longest: int, max_tokens: int) -> None:
    rows = np.arange(count)
    passes = cut_to_passes(rows, longest, max_tokens)
    assert np.concatenate(passes).tolist() == rows.tolist()
    assert all(len(part) * longest <= max_tokens for part in passes)


@pytest.mark.parametrize(("max_tokens", "sizes"), [(40, [4, 4, 2]), (10, [1] * 10), (1_000, [10])])
def test_passes_are_as_large_as_may_be(max_tokens: int, sizes: list[int]) -> None:
    assert [len(part) for part in cut_to_passes(np.arange(10), 10, max_tokens)] == sizes
