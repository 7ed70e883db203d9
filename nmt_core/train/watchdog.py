"""The watchdog: sees from an update's loss and gradient that training goes wrong, before it has gone on for a week."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt_core.train.curves import Lines

INCIDENTS = "incidents.jsonl"
"""What it saw, in the folder of the run: each time the reason, where training went back to, and the update's pairs."""

_LEAST_SHARE_OF_MEAN = 0.01  # a smaller deviation is no measure: the loss of a model that hardly learns is constant


@dataclass
class LossWindow:
    """Mean and variance of the loss per token over the last updates, as exponential averages."""

    updates: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def add(self, loss: float, length: int) -> None:
        """Count one update of a window of `length` updates."""
        self.updates += 1
        share = max(1 / self.updates, 1 / length)
        difference = loss - self.mean
        self.mean += share * difference
        self.variance = (1 - share) * (self.variance + share * difference**2)

    @property
    def deviation(self) -> float:
        """Standard deviation, and not next to nothing."""
        return max(math.sqrt(self.variance), _LEAST_SHARE_OF_MEAN * abs(self.mean))


def diagnose(loss: float, gradient_norm: float, window: LossWindow, length: int, most_deviations: float) -> str:
    """What is wrong with an update; empty if nothing is.

    Args:
        loss: mean plain loss of the update, in nats per target token.
        gradient_norm: norm of its gradient, before clipping.
        window: the losses before.
        length: updates of a window; before it is full, a high loss is let pass.
        most_deviations: how far above the window's mean a loss may be, in standard deviations; 0: as far as it likes.
    """
    if not math.isfinite(loss):
        return f"the loss is {loss}"
    if not math.isfinite(gradient_norm):
        return f"the norm of the gradient is {gradient_norm}"
    limit = window.mean + most_deviations * window.deviation
    if most_deviations and window.updates >= length and loss > limit:
        above = (loss - window.mean) / window.deviation
        return f"the loss is {loss:.3f}, {above:.0f} deviations above {window.mean:.3f}, the mean of {length:,} updates"
    return ""


class Incidents:
    """The incidents of a run, one JSON object a line. A full disk costs no training, see `Lines`.

    Args:
        folder: of the run; None: this is not the first process, and notes nothing.
        say: told if they cannot be written.
    """

    def __init__(self, folder: Path | None, say: Callable[[str], None]) -> None:
        self._lines = Lines(folder / INCIDENTS, say) if folder else None

    def note(self, incident: Mapping[str, Any]) -> None:
        """Add one, of which `updates_passed_by` reads `update`, `epoch`, `number` and `back_to`."""
        if self._lines:
            self._lines.append(json.dumps(incident))

    def try_again(self) -> None:
        """Write down what had no room when it was noted, if there is some now."""
        if self._lines:
            self._lines.try_again()


def updates_passed_by(folder: Path) -> int:
    """Updates that had no effect in the end, for the watchdog went back to before them, and on with later data."""
    file = folder / INCIDENTS
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    happened: list[dict[str, Any]] = []
    for incident in (json.loads(line) for line in lines if line.endswith(b"\n")):
        # The order of the data is always the same: a run that comes to an earlier place was killed and began before.
        happened = [each for each in happened if _place(each) < _place(incident)]
        happened.append(incident)
    return sum(each["update"] - each["back_to"] for each in happened if each["back_to"] is not None)


def _place(incident: Mapping[str, Any]) -> tuple[int, int]:
    return incident["epoch"], incident["number"]
