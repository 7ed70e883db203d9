"""Read the outcome of each update, its loss and the norm of its gradient, from a GPU one update late.

Reading a number from a GPU waits for all work that was queued before it, and leaves the queue empty. So the loss of an
update is copied while the next update is being queued, and is read after that.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from nmt_core.batches.loader import Update
from nmt_core.train.distributed import World
from nmt_core.train.watchdog import LossWindow, diagnose

UPDATES_LATE = {"cuda": 1}
"""Updates between an update and the reading of its outcome, by type of device. 0 for types not listed."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one update, over all processes."""

    number: int
    """Number of the update, from 1."""
    update: Update
    loss: float
    """Sum of the unsmoothed loss over the target tokens, in nats."""
    gradient_norm: float
    """Norm of the gradient before clipping."""
    stopping: int
    """Number of processes that were requested to stop."""
    written: int
    """Number of processes that had written their part of the pending checkpoint."""


@dataclass(frozen=True)
class _Copied:
    """Numbers of an update that are being copied from the device."""

    number: int
    update: Update
    values_4: Tensor
    """Loss, processes that were requested to stop, processes that have written, norm: fp64, on the CPU."""
    arrived: "torch.cuda.Event | None"
    """Event after which `values_4` is valid. None means at once."""

    def read(self) -> Outcome:
        """Wait for the copy and return the outcome."""
        if self.arrived:
            self.arrived.synchronize()
        loss, stopping, written, norm = self.values_4.tolist()
        return Outcome(self.number, self.update, loss, norm, int(stopping), int(written))


class Outcomes:
    """Queue of the outcomes of updates. Every process has an instance, and calls the same methods in step.

    Args:
        world: the processes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._pending: deque[_Copied] = deque()
        self._late = UPDATES_LATE.get(world.device.type, 0)

    def add(
        self, number: int, update: Update, loss: Tensor | float, norm: Tensor, *, stop: bool, is_written: bool
    ) -> None:
        """Sum the numbers of an update over the processes, and begin to copy them.

        Args:
            number: number of the update, from 1.
            update: the update.
            loss: this process' sum of the unsmoothed loss, in nats.
            norm: norm of the gradient, equal in all processes.
            stop: True if this process was requested to stop.
            is_written: True if this process has written its part of the pending checkpoint.
        """
        device = self._world.device
        flags_2 = torch.tensor([stop, is_written], dtype=torch.float64, pin_memory=device.type == "cuda")
        loss_1 = torch.as_tensor(loss, dtype=torch.float64, device=device).reshape(1)
        values_3 = torch.cat([loss_1, flags_2.to(device, non_blocking=True)])
        if self._world.size > 1:
            dist.all_reduce(values_3)
        values_4 = torch.cat([values_3, norm.detach().double().reshape(1)]).to("cpu", non_blocking=True)
        arrived = None
        if device.type == "cuda":
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()
        self._pending.append(_Copied(number, update, values_4, arrived))

    def known(self, *, wait: bool) -> Iterator[Outcome]:
        """Yield the outcomes that are due, oldest first. With `wait`, yield all pending outcomes."""
        while len(self._pending) > (0 if wait else self._late):
            yield self._pending.popleft().read()

    def forget(self) -> None:
        """Drop all pending outcomes, because training goes back to an earlier update."""
        self._pending.clear()


@dataclass(frozen=True)
class Problem:
    """Problem of an update, with its outcome."""

    what: str
    outcome: Outcome


def look_at(outcome: Outcome, window: LossWindow, length: int, most_deviations: float) -> Problem | None:
    """Return the problem of an update, if it has one, and add its loss to the window. See `diagnose`."""
    loss = outcome.loss / outcome.update.target_tokens
    what = diagnose(loss, outcome.gradient_norm, window, length, most_deviations)
    window.add(loss, length)
    return Problem(what, outcome) if what else None
