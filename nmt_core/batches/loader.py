"""One process's part of each update: read, collated and handed over ahead of time, by a thread.

Memory holds the blocks of one window or two that this process computes micro-batches of, and a few updates ahead.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from nmt_core.batches.collate import Batch, pack, pad
from nmt_core.batches.plan import BLOCKS, Batching, Block, Capacity, MicroBatch, Plan
from nmt_core.batches.shards import TokenPairs, TokenShards

_UPDATES_AHEAD = 16


@dataclass(frozen=True)
class Share:
    """Who computes which micro-batches."""

    rank: int = 0
    world_size: int = 1
    max_tokens_per_pass: int = 0
    """Tokens of a forward pass on either side, up to which packed micro-batches are joined. 0: each is a pass."""
    is_pinned: bool = False
    """Whether batches are put where a GPU can copy them from while the host does something else."""


@dataclass(frozen=True)
class Pass:
    """One forward pass of one process."""

    batch: Batch
    source_tokens: int
    target_tokens: int
    """Tokens that are no padding. None of either: the pass is another process' work too, and counts for nothing; it is
    done because all processes exchange weights and gradients in step."""


@dataclass(frozen=True)
class Update:
    """One update of the weights, as far as one process computes it."""

    epoch: int
    number: int
    """Of the epoch, from 0."""
    passes: tuple[Pass, ...]
    """As many in each process."""
    target_tokens: int
    """Of all processes."""
    micro_batches: tuple[MicroBatch, ...]
    """Of all processes."""


class Loader:
    """Updates in the planned order, for ever. Used as a context: a thread works ahead until it is left.

    Args:
        shards: what is trained on.
        plan: the plan of their updates.
        batching: that of the plan.
        share: this process's part.
        start: epoch, and number of the update in it, to begin with.
        clock: seconds, for `seconds_waited`.
    """

    def __init__(
        self,
        shards: TokenShards,
        plan: Plan,
        batching: Batching,
        share: Share,
        start: tuple[int, int] = (0, 0),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._shards = shards
        self._plan = plan
        self._batching = batching
        self._share = share
        self._start = start
        self._clock = clock
        self._blocks: dict[Block, TokenPairs] = {}
        self._ready: queue.Queue[Update | BaseException] = queue.Queue(_UPDATES_AHEAD)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work_ahead, name="loader", daemon=True)
        self.seconds_waited = 0.0
        """How long `__iter__` has waited for the thread."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def __iter__(self) -> Iterator[Update]:
        """The updates from the start on.

        Raises:
            DataError: a shard is not what was written.
        """
        while True:
            before = self._clock()
            update = self._ready.get()
            self.seconds_waited += self._clock() - before
            if isinstance(update, BaseException):
                raise update
            yield update

    def _work_ahead(self) -> None:
        try:
            epoch, first = self._start
            while True:
                for number, micro_batches in enumerate(self._plan.updates(epoch, first), first):
                    if not self._hand_over(self._update(epoch, number, micro_batches)):
                        return
                epoch, first = epoch + 1, 0
        except BaseException as error:  # raised again where the updates are wanted
            self._hand_over(error)

    def _hand_over(self, update: Update | BaseException) -> bool:
        """Wait until the update is wanted; False if none is wanted any more."""
        while not self._is_over.is_set():
            try:
                self._ready.put(update, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def _update(self, epoch: int, number: int, micro_batches: list[MicroBatch]) -> Update:
        target_tokens = sum(int(each.lengths_B2[:, 1].sum()) for each in micro_batches)
        return Update(epoch, number, tuple(self._passes(micro_batches)), target_tokens, tuple(micro_batches))

    def _passes(self, micro_batches: list[MicroBatch]) -> Iterator[Pass]:
        share, joined = self._share, 1
        if self._batching == "packed":
            joined = max(1, share.max_tokens_per_pass // max(self._plan.capacity.source, self._plan.capacity.target))
        own = micro_batches[share.rank :: share.world_size]
        for start in range(0, -(-len(micro_batches) // share.world_size), joined):
            part = own[start : start + joined]
            batch = self._collate(part or micro_batches[:1])
            tokens = sum((each.lengths_B2.sum(axis=0) for each in part), np.zeros(2, np.int64))
            yield Pass(batch.pinned() if share.is_pinned else batch, *tokens.tolist())

    def _collate(self, micro_batches: list[MicroBatch]) -> Batch:
        if self._batching == "padded":
            return pad(self._read(micro_batches[0].block), micro_batches[0].rows)
        capacity = self._plan.capacity
        whole = Capacity(len(micro_batches) * capacity.source, len(micro_batches) * capacity.target)
        return pack([(self._read(each.block), each.rows) for each in micro_batches], whole)

    def _read(self, block: Block) -> TokenPairs:
        """The pairs of a block; the block that was not asked for longest is forgotten when there are many."""
        pairs = self._blocks.pop(block, None)
        if pairs is None:
            pairs = self._shards.read(block.groups)
            if len(self._blocks) >= BLOCKS:
                del self._blocks[next(iter(self._blocks))]
        self._blocks[block] = pairs
        return pairs
