"""The watchdog: sees from an update's loss and gradient that training goes wrong, before it has gone on for a week."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

INCIDENTS = "incidents.jsonl"
"""What it saw, in the folder of the run: for each time that training went back the reason, and the update's pairs."""

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


def trouble(loss: float, gradient_norm: float, window: LossWindow, length: int, most_deviations: float) -> str:
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


def updates_passed_by(folder: Path) -> int:
    """Updates of the plan whose data was left out of the run in this folder."""
    file = folder / INCIDENTS
    incidents = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return len({(incident["epoch"], incident["number"]) for incident in incidents})  # a killed run sees some again
