"""Plan batches: choose the pairs that are trained on together, and their order.

An epoch reads the whole text (with several segmentations, the next one) in windows of row groups, which are drawn anew
in each epoch. The row groups of a window are dealt to blocks. The pairs of a block are cut into micro-batches: pairs
that are computed together, either padded to one length or packed into one stream. A window yields one micro-batch of
each block in turn, and a fixed number of consecutive micro-batches is an update.

The plan is a pure function of the shards, the seed and the epoch. So the state of the data is two integers, the epoch
and the number of the update in it. The plan does not depend on the number of processes: of n processes, each computes
every n-th micro-batch of an update. A process reads only the blocks of its own micro-batches, one window at a time,
however large the corpus is. Except at the end of a window, it reads at most 8 / gcd(8, micro-batches of an update,
processes) of eight blocks: one block where both numbers are multiples of eight, and two blocks for 12 micro-batches on
8 processes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

Batching = Literal["padded", "packed"]

BLOCKS = 8
"""Most blocks of a window."""
_ROW_GROUPS_OF_A_BLOCK = 8
_WINDOW = BLOCKS * _ROW_GROUPS_OF_A_BLOCK


class Lengths(Protocol):
    """Lengths of the pairs in shards, as a plan reads them."""

    @property
    def tokens_of_groups(self) -> np.ndarray:
        """Number of source and target tokens of each row group, [groups, 2]."""

    def groups_of_epoch(self, epoch: int) -> np.ndarray:
        """Return the numbers of the row groups that an epoch reads."""

    def lengths(self, groups: Sequence[int]) -> np.ndarray:
        """Return the number of source and target tokens of each pair in these row groups, [N, 2]."""

    def weights(self, groups: Sequence[int], by_corpus: Mapping[str, float]) -> np.ndarray:
        """Return the weight of each pair in these row groups, [N]: the weight of its corpus, or 0 if it has none."""


@dataclass(frozen=True)
class Block:
    """Row groups that are read together."""

    groups: tuple[int, ...]


@dataclass(frozen=True)
class MicroBatch:
    """Pairs that are computed together."""

    block: Block
    rows: np.ndarray
    """Indices of the pairs in the block, counted through its row groups."""
    lengths_B2: np.ndarray
    """Number of source and target tokens of each pair."""


@dataclass(frozen=True)
class Capacity:
    """Most tokens of a micro-batch on each side, padding included."""

    source: int
    target: int


class Plan:
    """Plan of the updates of every epoch.

    Args:
        shards: lengths of the pairs to train on.
        batching: `padded` for micro-batches of similar lengths, or `packed` for any lengths, concatenated.
        micro_batch_tokens: most tokens of a micro-batch on either side, padding included. No pair may be longer.
        max_tokens: most tokens of an update. An update has as many micro-batches as fit, and at least one.
        seed: seed of all draws.
        corpora: number of times that an epoch reads the pairs of each corpus. Of a fraction, the pairs are drawn anew
            in each epoch. Empty means each pair of the text once.
    """

    def __init__(
        self,
        shards: Lengths,
        batching: Batching,
        *,
        micro_batch_tokens: int,
        max_tokens: int,
        seed: int,
        corpora: Mapping[str, float] | None = None,
    ) -> None:
        self._shards = shards
        self._corpora = corpora or {}
        self._batching: Batching = batching
        self._seed = seed
        self.micro_batches_of_an_update = micro_batches_of_an_update(max_tokens, micro_batch_tokens)
        tokens_2 = shards.tokens_of_groups.sum(axis=0)
        self.capacity = (
            packed_capacity(micro_batch_tokens, tokens_2)
            if batching == "packed"
            else Capacity(*[micro_batch_tokens] * 2)
        )

    def updates(self, epoch: int, first: int = 0) -> Iterator[list[MicroBatch]]:
        """Yield the micro-batches of each update of an epoch from update `first` on. The last one may have fewer."""
        waiting: list[MicroBatch] = []
        to_skip = first * self.micro_batches_of_an_update
        for window in self._windows(epoch):
            if to_skip >= len(window):
                to_skip -= len(window)
                continue
            waiting += window[to_skip:]
            to_skip = 0
            while len(waiting) >= self.micro_batches_of_an_update:
                yield waiting[: self.micro_batches_of_an_update]
                del waiting[: self.micro_batches_of_an_update]
        if waiting:
            yield waiting

    def _windows(self, epoch: int) -> Iterator[list[MicroBatch]]:
        """Yield the micro-batches of each window, in their order."""
        read = self._shards.groups_of_epoch(epoch)
        groups = read[np.random.default_rng([self._seed, epoch]).permutation(len(read))].tolist()
        for start in range(0, len(groups), _WINDOW):
            window = groups[start : start + _WINDOW]
            count = -(-len(window) // _ROW_GROUPS_OF_A_BLOCK)
            blocks = [
                self._micro_batches(
                    Block(tuple(window[number::count])), np.random.default_rng([self._seed, epoch, start, number])
                )
                for number in range(count)
            ]
            yield in_turn(blocks)

    def _micro_batches(self, block: Block, draw: np.random.Generator) -> list[MicroBatch]:
        lengths_N2 = self._shards.lengths(block.groups)
        cut = pad_micro_batches if self._batching == "padded" else pack_micro_batches
        if self._corpora:
            rows = repeated(self._shards.weights(block.groups, self._corpora), draw)
            micro_batches = [rows[part] for part in cut(lengths_N2[rows], self.capacity, draw)]
        else:
            micro_batches = cut(lengths_N2, self.capacity, draw)
        return [
            MicroBatch(block, micro_batches[index], lengths_N2[micro_batches[index]])
            for index in draw.permutation(len(micro_batches))
        ]


def repeated(weights_N: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return the index of each pair as many times as its weight says. A fraction is the probability of one more."""
    whole_N = np.floor(weights_N)
    times_N = whole_N + (draw.random(len(weights_N)) < weights_N - whole_N)
    return np.repeat(np.arange(len(weights_N)), times_N.astype(np.int64))


def micro_batches_of_an_update(max_tokens: int, micro_batch_tokens: int) -> int:
    """Return the number of micro-batches that fit into an update, at least one."""
    return max(1, max_tokens // micro_batch_tokens)


def in_turn(blocks: Sequence[Sequence[MicroBatch]]) -> list[MicroBatch]:
    """Return the first micro-batch of each block, then the second of each, and so on."""
    longest = max(map(len, blocks), default=0)
    return [block[place] for place in range(longest) for block in blocks if place < len(block)]


def packed_capacity(micro_batch_tokens: int, tokens_2: np.ndarray) -> Capacity:
    """Return the capacity of both streams: `micro_batch_tokens` for the language with more tokens, less for the other.

    With the ratio of their tokens, both streams are full at about the same time. The other stream gets 2% more than its
    share, because micro-batches differ, and at least half of `micro_batch_tokens`, so that any pair up to that length
    fits.
    """
    shares = np.clip(1.02 * tokens_2 / max(1, tokens_2.max()), 0.5, 1).tolist()
    return Capacity(*(min(micro_batch_tokens, 8 * -(-int(share * micro_batch_tokens) // 8)) for share in shares))


def pad_micro_batches(lengths_N2: np.ndarray, capacity: Capacity, draw: np.random.Generator) -> list[np.ndarray]:
    """Cut pairs into micro-batches of similar lengths, so that little is lost to padding.

    Pairs are put into bands by source length. Within a band they are sorted by target length, upwards in one band and
    downwards in the next, so that neighbours are alike on both sides. There are about as many bands as micro-batches in
    a band, which needs the least padding. Pairs of equal lengths are combined at random.
    """
    shuffled = draw.permutation(len(lengths_N2))
    source_N, target_N = lengths_N2[shuffled].T
    longest_N = lengths_N2[shuffled].max(axis=1)
    by_source = np.argsort(source_N, kind="stable")
    tokens = np.cumsum(longest_N[by_source])
    micro_batches = tokens[-1] / capacity.source if len(tokens) else 0
    bands = max(1, round(micro_batches**0.5))
    ends = np.searchsorted(tokens, tokens[-1] * np.arange(1, bands) / bands) if len(tokens) else []
    order = [
        band[np.argsort(target_N[band] * (-1 if number % 2 else 1), kind="stable")]
        for number, band in enumerate(np.split(by_source, ends))
    ]
    rows = np.concatenate(order) if order else by_source
    return [shuffled[part] for part in _fill(rows, longest_N, capacity.source)]


def _fill(rows: np.ndarray, longest_N: np.ndarray, micro_batch_tokens: int) -> Iterator[np.ndarray]:
    """Yield micro-batches of consecutive rows, each with as many rows as fit when padded to the longest."""
    start = 0
    while start < len(rows):
        widths = np.maximum.accumulate(longest_N[rows[start : start + micro_batch_tokens]])
        padded = widths * np.arange(1, len(widths) + 1)
        count = max(1, int(np.searchsorted(padded, micro_batch_tokens, side="right")))
        yield rows[start : start + count]
        start += count


def pack_micro_batches(lengths_N2: np.ndarray, capacity: Capacity, draw: np.random.Generator) -> list[np.ndarray]:
    """Cut pairs, in random order, into micro-batches that fit into both streams."""
    rows = draw.permutation(len(lengths_N2))
    source_N, target_N = (np.cumsum(lengths) for lengths in lengths_N2[rows].T)
    micro_batches, start, before = [], 0, (0, 0)
    while start < len(rows):
        end = min(
            int(np.searchsorted(source_N, before[0] + capacity.source, side="right")),
            int(np.searchsorted(target_N, before[1] + capacity.target, side="right")),
        )
        end = max(end, start + 1)
        micro_batches.append(rows[start:end])
        start, before = end, (int(source_N[end - 1]), int(target_N[end - 1]))
    return micro_batches
