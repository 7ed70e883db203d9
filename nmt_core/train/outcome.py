"""What updates came to, read from a GPU one update late.

To read a number from a GPU is to wait until it has done all that it was asked for before, and to ask it for nothing
meanwhile. So an update's loss is copied while the next update is being asked for, and looked at after that.
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
"""How many updates later an outcome is looked at, by the kind of device; elsewhere at once."""


@dataclass(frozen=True)
class Outcome:
    """What one update came to, over all processes."""

    number: int
    """Of the update, from 1."""
    update: Update
    loss: float
    """Sum of the plain loss over the target tokens, in nats."""
    gradient_norm: float
    """Before clipping."""
    stopping: int
    """Processes that were asked to stop."""
    written: int
    """Processes that had written their part of the pending checkpoint."""


@dataclass(frozen=True)
class _Copied:
    """Numbers on their way from the device."""

    number: int
    update: Update
    values_4: Tensor
    """Loss, processes asked to stop, processes that have written, norm: fp64 on the CPU, after `arrived`."""
    arrived: "torch.cuda.Event | None"

    def read(self) -> Outcome:
        if self.arrived:
            self.arrived.synchronize()
        loss, stopping, written, norm = self.values_4.tolist()
        return Outcome(self.number, self.update, loss, norm, int(stopping), int(written))


class Outcomes:
    """Outcomes of updates in their order. Every process has one, and calls the same methods in step.

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
        """Sum an update's numbers over the processes, and have them copied.

        Args:
            number: of the update, from 1.
            update: what was computed.
            loss: this process's sum of the plain loss, in nats.
            norm: of the gradient, the same in all processes.
            stop: whether this process was asked to stop.
            is_written: whether this process has written its part of the pending checkpoint.
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
        """Give the outcomes that need not be waited for, or all, oldest first."""
        while len(self._pending) > (0 if wait else self._late):
            yield self._pending.popleft().read()

    def forget(self) -> None:
        """Drop what has not been looked at: training goes back to before it."""
        self._pending.clear()


@dataclass(frozen=True)
class Problem:
    """What went wrong, and in which update."""

    what: str
    outcome: Outcome


def look_at(outcome: Outcome, window: LossWindow, length: int, most_deviations: float) -> Problem | None:
    """Return what is wrong with an update, if anything is, and count its loss; see `diagnose`."""
    loss = outcome.loss / outcome.update.target_tokens
    what = diagnose(loss, outcome.gradient_norm, window, length, most_deviations)
    window.add(loss, length)
    return Problem(what, outcome) if what else None
