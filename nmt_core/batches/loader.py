"""Load the part of each update that one process computes. A thread reads and collates it ahead of time.

Memory holds the blocks of one or two windows whose micro-batches this process computes, and a few updates ahead.
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
    """Share of the micro-batches that one process computes."""

    rank: int = 0
    world_size: int = 1
    max_tokens_per_pass: int = 0
    """Most tokens of a forward pass on either side. Packed micro-batches are joined up to this number. 0 means one pass
    for each micro-batch."""
    is_pinned: bool = False
    """True if batches are put into pinned memory, from which a GPU copies while the host does something else."""


@dataclass(frozen=True)
class Pass:
    """One forward pass of one process."""

    batch: Batch
    source_tokens: int
    """Number of source tokens that are not padding. It is 0 if the pass counts for nothing."""
    target_tokens: int
    """Number of target tokens that are not padding. It is 0 if the pass counts for nothing: another process computes
    the same pass, and this process runs it only because all processes exchange weights and gradients in step."""


@dataclass(frozen=True)
class Update:
    """One update of the weights: the part that one process computes."""

    epoch: int
    number: int
    """Number of the update in the epoch, from 0."""
    passes: tuple[Pass, ...]
    """Forward passes of this process. All processes have the same number of passes."""
    target_tokens: int
    """Number of target tokens of all processes."""
    micro_batches: tuple[MicroBatch, ...]
    """Micro-batches of all processes."""


class Loader:
    """Endless iterable of updates in the planned order.

    Use it as a context manager: a thread works ahead until the context is left.

    Args:
        shards: token shards to train on.
        plan: plan of their updates.
        batching: batching of the plan.
        share: share of this process.
        start: epoch, and number of the update in it, to start from.
        clock: function that returns seconds, for `seconds_waited`.
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
        """Seconds that `__iter__` has waited for the thread."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def __iter__(self) -> Iterator[Update]:
        """Yield the updates from the start on.

        Raises:
            DataError: a shard is damaged.
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
        except BaseException as error:  # raised again in `__iter__`
            self._hand_over(error)

    def _hand_over(self, update: Update | BaseException) -> bool:
        """Wait until there is room for the update. Return False if the context has been left."""
        while not self._is_over.is_set():
            try:
                self._ready.put(update, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def _update(self, epoch: int, number: int, micro_batches: list[MicroBatch]) -> Update:
        target_tokens = sum(int(micro_batch.lengths_B2[:, 1].sum()) for micro_batch in micro_batches)
        return Update(epoch, number, tuple(self._passes(micro_batches)), target_tokens, tuple(micro_batches))

    def _passes(self, micro_batches: list[MicroBatch]) -> Iterator[Pass]:
        """Yield the passes of this process: as many as any other process has, some of which may count for nothing."""
        share, joined = self._share, 1
        if self._batching == "packed":
            joined = max(1, share.max_tokens_per_pass // max(self._plan.capacity.source, self._plan.capacity.target))
        own = micro_batches[share.rank :: share.world_size]
        for start in range(0, -(-len(micro_batches) // share.world_size), joined):
            part = own[start : start + joined]
            batch = self._collate(part or micro_batches[:1])
            tokens = sum((micro_batch.lengths_B2.sum(axis=0) for micro_batch in part), np.zeros(2, np.int64))
            yield Pass(batch.pinned() if share.is_pinned else batch, *tokens.tolist())

    def _collate(self, micro_batches: list[MicroBatch]) -> Batch:
        if self._batching == "padded":
            return pad(self._read(micro_batches[0].block), micro_batches[0].rows)
        capacity = self._plan.capacity
        whole = Capacity(len(micro_batches) * capacity.source, len(micro_batches) * capacity.target)
        return pack([(self._read(micro_batch.block), micro_batch.rows) for micro_batch in micro_batches], whole)

    def _read(self, block: Block) -> TokenPairs:
        """Return the pairs of a block. If too many blocks are cached, drop the least recently used one."""
        pairs = self._blocks.pop(block, None)
        if pairs is None:
            pairs = self._shards.read(block.groups)
            if len(self._blocks) >= BLOCKS:
                del self._blocks[next(iter(self._blocks))]
        self._blocks[block] = pairs
        return pairs
