"""The plan of batches: which pairs are trained on together, and in what order.

An epoch reads the whole text (of several segmentations the next one) in windows of row groups, drawn anew in each one.
The row groups of a window are dealt to lanes, and the pairs of each lane are cut into slices: pairs that are computed
together, padded to one length or packed into one stream. The slices of a window come lane by lane in turn; so many of
them, one after the other, make an update.

All of that is a pure function of the shards, the seed and the epoch, so the state of the data is two integers, epoch
and update of the epoch, and the number of processes plays no part: a process computes every n-th slice of an update. It
reads only the lanes that its slices lie in, and a window at a time, however large the corpus is. Of eight lanes these
are at most 8 / gcd(8, slices of an update, processes), but for the end of a window: one where both are multiples of
eight, and two for 12 slices on 8 processes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

Batching = Literal["padded", "packed"]

LANES = 8
"""Most lanes of a window."""
_ROW_GROUPS_OF_A_LANE = 8
_WINDOW = LANES * _ROW_GROUPS_OF_A_LANE


class Lengths(Protocol):
    """What a plan knows of the shards."""

    @property
    def tokens_of_groups(self) -> np.ndarray:
        """Source and target tokens of each row group, [groups, 2]."""

    def groups_of_epoch(self, epoch: int) -> np.ndarray:
        """Numbers of the row groups that an epoch reads."""

    def lengths(self, groups: Sequence[int]) -> np.ndarray:
        """Source and target tokens of each pair of these row groups, [N, 2]."""


@dataclass(frozen=True)
class Lane:
    """Row groups that are read together."""

    groups: tuple[int, ...]


@dataclass(frozen=True)
class Slice:
    """Pairs that are computed together."""

    lane: Lane
    rows: np.ndarray
    """Which pairs of the lane, counted through its row groups."""
    lengths_B2: np.ndarray
    """Their source and target tokens."""


@dataclass(frozen=True)
class Capacity:
    """Most tokens of a slice, padding included."""

    source: int
    target: int


class Plan:
    """The updates of every epoch.

    Args:
        shards: what is trained on.
        batching: slices of pairs of like length, to be padded, or of any length, to be packed end to end.
        slice_tokens: most tokens of a slice on either side, padding included; no pair may be longer.
        max_tokens: tokens of an update; it has as many slices as fit, and one at least.
        seed: seed of all draws.
    """

    def __init__(self, shards: Lengths, batching: Batching, *, slice_tokens: int, max_tokens: int, seed: int) -> None:
        self._shards = shards
        self._batching: Batching = batching
        self._seed = seed
        self.slices_of_an_update = slices_of_an_update(max_tokens, slice_tokens)
        tokens_2 = shards.tokens_of_groups.sum(axis=0)
        self.capacity = (
            packed_capacity(slice_tokens, tokens_2) if batching == "packed" else Capacity(*[slice_tokens] * 2)
        )

    def updates(self, epoch: int, first: int = 0) -> Iterator[list[Slice]]:
        """The slices of each update of an epoch, from number `first` on; the last update may have fewer."""
        waiting: list[Slice] = []
        to_skip = first * self.slices_of_an_update
        for window in self._windows(epoch):
            if to_skip >= len(window):
                to_skip -= len(window)
                continue
            waiting += window[to_skip:]
            to_skip = 0
            while len(waiting) >= self.slices_of_an_update:
                yield waiting[: self.slices_of_an_update]
                del waiting[: self.slices_of_an_update]
        if waiting:
            yield waiting

    def _windows(self, epoch: int) -> Iterator[list[Slice]]:
        """The slices of each window, in their order."""
        read = self._shards.groups_of_epoch(epoch)
        groups = read[np.random.default_rng([self._seed, epoch]).permutation(len(read))].tolist()
        for start in range(0, len(groups), _WINDOW):
            window = groups[start : start + _WINDOW]
            count = -(-len(window) // _ROW_GROUPS_OF_A_LANE)
            lanes = [
                self._slices(
                    Lane(tuple(window[number::count])), np.random.default_rng([self._seed, epoch, start, number])
                )
                for number in range(count)
            ]
            yield in_turn(lanes)

    def _slices(self, lane: Lane, draw: np.random.Generator) -> list[Slice]:
        lengths_N2 = self._shards.lengths(lane.groups)
        cut = pad_slices if self._batching == "padded" else pack_slices
        slices = cut(lengths_N2, self.capacity, draw)
        return [Slice(lane, slices[index], lengths_N2[slices[index]]) for index in draw.permutation(len(slices))]


def slices_of_an_update(max_tokens: int, slice_tokens: int) -> int:
    """As many as fit, and one at least."""
    return max(1, max_tokens // slice_tokens)


def in_turn(lanes: Sequence[Sequence[Slice]]) -> list[Slice]:
    """The first of each lane, the second of each... as long as there are any."""
    longest = max(map(len, lanes), default=0)
    return [lane[place] for place in range(longest) for lane in lanes if place < len(lane)]


def packed_capacity(slice_tokens: int, tokens_2: np.ndarray) -> Capacity:
    """Capacity of both streams: `slice_tokens` for the language of more tokens, less for the other by their ratio.

    Both are then full at about the same time. The other one gets 2% more than its share, for slices differ, and at
    least half as much, so that any pair fits that is not longer than that.
    """
    shares = np.clip(1.02 * tokens_2 / max(1, tokens_2.max()), 0.5, 1).tolist()
    return Capacity(*(min(slice_tokens, 8 * -(-int(share * slice_tokens) // 8)) for share in shares))


def pad_slices(lengths_N2: np.ndarray, capacity: Capacity, draw: np.random.Generator) -> list[np.ndarray]:
    """Cut pairs into slices of like length, so that little is lost to padding.

    Pairs are put into bands by source length; within a band they go up, and in the next one down, by target length: so
    neighbours are alike on both sides. There are about as many bands as slices in a band, which wastes least. Which of
    the equally long ones meet is drawn.
    """
    shuffled = draw.permutation(len(lengths_N2))
    source_N, target_N = lengths_N2[shuffled].T
    longest_N = lengths_N2[shuffled].max(axis=1)
    by_source = np.argsort(source_N, kind="stable")
    tokens = np.cumsum(longest_N[by_source])
    slices = tokens[-1] / capacity.source if len(tokens) else 0
    bands = max(1, round(slices**0.5))
    ends = np.searchsorted(tokens, tokens[-1] * np.arange(1, bands) / bands) if len(tokens) else []
    order = [
        band[np.argsort(target_N[band] * (-1 if number % 2 else 1), kind="stable")]
        for number, band in enumerate(np.split(by_source, ends))
    ]
    rows = np.concatenate(order) if order else by_source
    return [shuffled[part] for part in _fill(rows, longest_N, capacity.source)]


def _fill(rows: np.ndarray, longest_N: np.ndarray, slice_tokens: int) -> Iterator[np.ndarray]:
    """As many rows to a slice, in their order, as fit when all are padded to the longest."""
    start = 0
    while start < len(rows):
        widths = np.maximum.accumulate(longest_N[rows[start : start + slice_tokens]])
        padded = widths * np.arange(1, len(widths) + 1)
        count = max(1, int(np.searchsorted(padded, slice_tokens, side="right")))
        yield rows[start : start + count]
        start += count


def pack_slices(lengths_N2: np.ndarray, capacity: Capacity, draw: np.random.Generator) -> list[np.ndarray]:
    """Cut pairs, in an order that is drawn, into slices that fill neither stream beyond its capacity."""
    rows = draw.permutation(len(lengths_N2))
    source_N, target_N = (np.cumsum(lengths) for lengths in lengths_N2[rows].T)
    slices, start, before = [], 0, (0, 0)
    while start < len(rows):
        end = min(
            int(np.searchsorted(source_N, before[0] + capacity.source, side="right")),
            int(np.searchsorted(target_N, before[1] + capacity.target, side="right")),
        )
        end = max(end, start + 1)
        slices.append(rows[start:end])
        start, before = end, (int(source_N[end - 1]), int(target_N[end - 1]))
    return slices
