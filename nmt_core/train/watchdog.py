"""Detect divergence from the loss and gradient of each update, before it costs days of training."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt_core.train.curves import Lines

INCIDENTS = "incidents.jsonl"
"""Name of the file of incidents in the folder of the run: reason, update that training went back to, and pairs."""

_LEAST_SHARE_OF_MEAN = 0.01  # smaller deviations mean little: a model that hardly learns has a constant loss


@dataclass
class LossWindow:
    """Mean and variance of the loss per token over the last updates, as exponential averages."""

    updates: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def add(self, loss: float, length: int) -> None:
        """Add the loss of one update to a window of `length` updates."""
        self.updates += 1
        share = max(1 / self.updates, 1 / length)
        difference = loss - self.mean
        self.mean += share * difference
        self.variance = (1 - share) * (self.variance + share * difference**2)

    @property
    def deviation(self) -> float:
        """Standard deviation, but at least 1% of the mean."""
        return max(math.sqrt(self.variance), _LEAST_SHARE_OF_MEAN * abs(self.mean))


def diagnose(loss: float, gradient_norm: float, window: LossWindow, length: int, most_deviations: float) -> str | None:
    """Return the problem of an update, or None.

    Args:
        loss: mean unsmoothed loss of the update, in nats per target token.
        gradient_norm: norm of its gradient, before clipping.
        window: losses of the updates before.
        length: number of updates in a window. Until it is full, high losses are accepted.
        most_deviations: largest distance of a loss above the window's mean, in standard deviations. 0 sets no limit.
    """
    if not math.isfinite(loss):
        return f"the loss is {loss}"
    if not math.isfinite(gradient_norm):
        return f"the norm of the gradient is {gradient_norm}"
    limit = window.mean + most_deviations * window.deviation
    if most_deviations and window.updates >= length and loss > limit:
        above = (loss - window.mean) / window.deviation
        return f"the loss is {loss:.3f}, {above:.0f} deviations above {window.mean:.3f}, the mean of {length:,} updates"
    return None


class Incidents:
    """Incidents of a run, one JSON object a line. A full disk does not stop training, see `Lines`.

    Args:
        folder: folder of the run. None in all processes except the first, which write nothing.
        say: receives a message if incidents cannot be written.
    """

    def __init__(self, folder: Path | None, say: Callable[[str], None]) -> None:
        self._lines = Lines(folder / INCIDENTS, say) if folder else None

    def note(self, incident: Mapping[str, Any]) -> None:
        """Add an incident. `updates_passed_by` reads its `update`, `epoch`, `number` and `back_to`."""
        if self._lines:
            self._lines.append(json.dumps(incident))

    def try_again(self) -> None:
        """Write the incidents that had no room on the disk, if there is room now."""
        if self._lines:
            self._lines.try_again()


def updates_passed_by(folder: Path) -> int:
    """Return the number of updates without effect, because training went back to a checkpoint before them."""
    file = folder / INCIDENTS
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    happened: list[dict[str, Any]] = []
    for incident in (json.loads(line) for line in lines if line.endswith(b"\n")):
        # The order of the data never changes. An incident at an earlier place follows a kill: it replaces later ones.
        happened = [earlier for earlier in happened if _place(earlier) < _place(incident)]
        happened.append(incident)
    return sum(one["update"] - one["back_to"] for one in happened if one["back_to"] is not None)


def _place(incident: Mapping[str, Any]) -> tuple[int, int]:
    return incident["epoch"], incident["number"]
