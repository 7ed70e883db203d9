"""The plan of batches: complete, bounded, reproducible, and the same however many processes share it."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.batches.plan import (
    Batching,
    Capacity,
    MicroBatch,
    Plan,
    pack_micro_batches,
    packed_capacity,
    pad_micro_batches,
)

LONGEST = 64
lengths = st.lists(st.tuples(st.integers(1, LONGEST), st.integers(1, LONGEST)), min_size=1, max_size=80).map(np.array)
seeds = st.integers(0, 2**31)
batchings = st.sampled_from(["padded", "packed"])


class Corpus:
    """Lengths of a corpus that does not exist, with a record of the row groups that were read."""

    def __init__(self, pairs: int, row_group_pairs: int, seed: int = 1) -> None:
        lengths_N2 = np.random.default_rng(seed).integers(1, LONGEST, (pairs, 2))
        self.parts = np.split(lengths_N2, range(row_group_pairs, pairs, row_group_pairs))

    @property
    def tokens_of_groups(self) -> np.ndarray:
        return np.array([part.sum(axis=0) for part in self.parts])

    def groups_of_epoch(self, epoch: int) -> np.ndarray:
        return np.arange(len(self.parts))

    def lengths(self, groups: Sequence[int]) -> np.ndarray:
        return np.concatenate([self.parts[group] for group in groups])

    def weights(self, groups: Sequence[int], by_corpus: Mapping[str, float]) -> np.ndarray:
        """Row groups alternate between two corpora, `even` and `odd`."""
        names = [("even", "odd")[group % 2] for group in groups for _ in self.parts[group]]
        return np.array([by_corpus.get(name, 0.0) for name in names])


def plan(corpus: Corpus, batching: Batching = "padded", micro_batch_tokens: int = 256, seed: int = 1) -> Plan:
    return Plan(
        corpus, batching, micro_batch_tokens=micro_batch_tokens, max_tokens=4 * micro_batch_tokens + 1, seed=seed
    )


def pairs_of(corpus: Corpus, micro_batches: Sequence[MicroBatch]) -> list[tuple[int, int]]:
    """Row group and row of each pair."""
    found = []
    for each in micro_batches:
        place = [(group, row) for group in each.block.groups for row in range(len(corpus.parts[group]))]
        found += [place[row] for row in each.rows]
    return found


def names(updates: Sequence[Sequence[MicroBatch]]) -> list[list[tuple[tuple[int, ...], list[int]]]]:
    return [[(each.block.groups, each.rows.tolist()) for each in update] for update in updates]


@given(lengths, seeds, st.integers(LONGEST, 500))
def test_every_pair_is_in_one_padded_slice_and_none_is_too_large(
    lengths_N2: np.ndarray, seed: int, tokens: int
) -> None:
    micro_batches = pad_micro_batches(lengths_N2, Capacity(tokens, tokens), np.random.default_rng(seed))
    assert sorted(np.concatenate(micro_batches)) == list(range(len(lengths_N2)))
    for rows in micro_batches:
        assert len(rows) > 0
        assert len(rows) * lengths_N2[rows].max() <= tokens  # either side, padding included


@given(lengths, seeds, st.integers(2 * LONGEST, 500))
def test_every_pair_is_in_one_packed_slice_and_none_overflows(lengths_N2: np.ndarray, seed: int, tokens: int) -> None:
    capacity = packed_capacity(tokens, lengths_N2.sum(axis=0))
    micro_batches = pack_micro_batches(lengths_N2, capacity, np.random.default_rng(seed))
    assert sorted(np.concatenate(micro_batches)) == list(range(len(lengths_N2)))
    for rows in micro_batches:
        source, target = lengths_N2[rows].sum(axis=0)
        assert 0 < source <= capacity.source <= tokens
        assert 0 < target <= capacity.target <= tokens


def test_nothing_is_cut_into_nothing() -> None:
    nothing, draw = np.empty((0, 2), np.int64), np.random.default_rng(1)
    assert (
        pad_micro_batches(nothing, Capacity(64, 64), draw) == pack_micro_batches(nothing, Capacity(64, 64), draw) == []
    )


@settings(max_examples=30)
@given(st.integers(1, 900), st.integers(5, 60), batchings, seeds)
def test_an_epoch_holds_every_pair_once(pairs: int, row_group_pairs: int, batching: Batching, seed: int) -> None:
    corpus = Corpus(pairs, row_group_pairs)
    updates = list(plan(corpus, batching, seed=seed).updates(0))
    found = pairs_of(corpus, [each for update in updates for each in update])
    assert sorted(found) == [(group, row) for group, part in enumerate(corpus.parts) for row in range(len(part))]
    assert [len(update) for update in updates[:-1]] == [4] * (len(updates) - 1)
    assert 1 <= len(updates[-1]) <= 4
    for each in (each for update in updates for each in update):
        assert np.array_equal(each.lengths_B2, corpus.lengths(each.block.groups)[each.rows])


@settings(max_examples=20)
@given(st.floats(0.05, 3.0), batchings, seeds)
def test_an_epoch_reads_each_corpus_as_often_as_its_weight_says(weight: float, batching: Batching, seed: int) -> None:
    """Whole parts of a weight are exact. A fraction is drawn, and anew in the next epoch."""
    corpus = Corpus(800, 40)
    chosen = Plan(corpus, batching, micro_batch_tokens=256, max_tokens=1_025, seed=seed, corpora={"odd": weight})
    counts = []
    for epoch in (0, 1):
        found = Counter(pairs_of(corpus, [each for update in chosen.updates(epoch) for each in update]))
        assert all(group % 2 for group, _ in found)
        assert set(found.values()) <= {math.floor(weight), math.floor(weight) + 1}
        assert sum(found.values()) == pytest.approx(400 * weight, abs=60)
        counts.append(found)
    fraction = weight - math.floor(weight)
    assert counts[0] != counts[1] or min(fraction, 1 - fraction) < 0.05  # of 400 pairs, so few may be the same ones


@settings(max_examples=20)
@given(st.integers(1, 40), batchings, seeds, st.integers(0, 3))
def test_it_resumes_from_any_update(first: int, batching: Batching, seed: int, epoch: int) -> None:
    """The state of the data is the epoch and the number of the update."""
    corpus = Corpus(3_000, 20)
    whole = list(plan(corpus, batching, seed=seed).updates(epoch))
    rest = list(plan(corpus, batching, seed=seed).updates(epoch, first))
    assert names(rest) == names(whole[first:])


@given(seeds)
@settings(max_examples=10)
def test_epochs_and_seeds_differ(seed: int) -> None:
    corpus = Corpus(500, 20)
    one, next_epoch, other_seed = (
        names(list(plan(corpus, seed=each).updates(epoch))) for each, epoch in ((seed, 0), (seed, 1), (seed + 1, 0))
    )
    assert one != next_epoch != other_seed != one
    together = [{tuple(sorted(rows)) for update in updates for _, rows in update} for updates in (one, next_epoch)]
    assert together[0] != together[1], "of equally long pairs others must meet"


@pytest.mark.parametrize("batching", ["padded", "packed"])
def test_slices_come_in_no_order_of_length(batching: Batching) -> None:
    micro_batches = [each for update in plan(Corpus(20_000, 1_000), batching).updates(0) for each in update]
    mean = [each.lengths_B2.mean() for each in micro_batches]
    assert abs(np.corrcoef(mean, range(len(mean)))[0, 1]) < 0.1


def alike(pairs: int) -> np.ndarray:
    """Lengths as in real text: both sides of a pair are about equally long."""
    draw = np.random.default_rng(1)
    source = 1 + draw.gamma(2.5, 6, pairs)
    return np.clip(np.stack([source, source * draw.normal(1.1, 0.2, pairs)], axis=1), 1, 128).astype(np.int64)


def test_little_is_lost_to_padding() -> None:
    lengths_N2 = alike(80_000)
    micro_batches = pad_micro_batches(lengths_N2, Capacity(2_048, 2_048), np.random.default_rng(1))
    assert 0.95 < lengths_N2.sum() / sum(len(rows) * lengths_N2[rows].max(axis=0).sum() for rows in micro_batches) < 1


@pytest.mark.parametrize("tokens", [1_024, 2_048, 16_384])
def test_little_of_a_stream_is_left_empty(tokens: int) -> None:
    lengths_N2 = alike(80_000)
    capacity = packed_capacity(tokens, lengths_N2.sum(axis=0))
    assert capacity.source < capacity.target == tokens
    micro_batches = pack_micro_batches(lengths_N2, capacity, np.random.default_rng(1))
    assert 0.95 < lengths_N2.sum() / (len(micro_batches) * (capacity.source + capacity.target)) <= 1


@pytest.mark.parametrize(
    ("micro_batches", "processes", "blocks"),
    [
        (8, 8, 1),
        (16, 8, 1),
        (16, 16, 1),
        (12, 8, 2),
        (4, 8, 2),
        (12, 4, 2),
        (6, 6, 4),
        (8, 3, 3),
        (12, 3, 8),
        (1, 8, 8),
    ],
)
def test_processes_read_the_row_groups_of_their_own_blocks_only(
    micro_batches: int, processes: int, blocks: int
) -> None:
    """This holds in the first updates of a window. In the last ones, some blocks have no micro-batches left."""
    assert blocks <= 8 // math.gcd(8, micro_batches, processes), "the bound that the plan tells"
    corpus = Corpus(64 * 500, 500)
    updates = Plan(corpus, "padded", micro_batch_tokens=256, max_tokens=micro_batches * 256, seed=1).updates(0)
    early = list(islice(updates, 2_400 // micro_batches))
    read = [
        {group for update in early for each in update[rank::processes] for group in each.block.groups}
        for rank in range(processes)
    ]
    assert max(map(len, read)) == 8 * blocks
