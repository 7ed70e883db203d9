"""Keep the progress of a training: its place in the data, its best validation and its losses, for checkpoints."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from nmt_core.config import TrainConfig
from nmt_core.train.watchdog import LossWindow


def watched(config: TrainConfig, point: Mapping[str, float]) -> float | None:
    """Return the value of a validation that `train.stop_on` watches, so that lower is better.

    Args:
        config: options of the training.
        point: values of the validation, by the names of the curves.

    Returns:
        The value, or None if `train.dev_metric` failed, so that the validation does not count.
    """
    if config.stop_on == "dev_loss":
        return float(point["dev_loss"])
    if config.stop_on != "dev_metric":
        return -float(point[f"dev_{config.stop_on}"])
    metric, score = config.dev_metric, point.get("dev_metric")
    if metric is None or score is None:
        return None
    return float(score) if metric.lower_is_better or metric.name == "TER" else -float(score)


@dataclass
class Progress:
    """Progress of a training. With the configuration, it is the whole state of the data and of the random numbers."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    """Number of finished updates of this epoch."""
    best_dev_loss: float = math.inf
    best: float = math.inf
    """Lowest value of a validation, see `count_validation`."""
    validations_since_best: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    """Value of each validation by update, if the best checkpoints are kept."""
    window: list[float] = field(default_factory=lambda: [0.0] * 4)
    """Sums since the last point of the curves, so that a resumed run draws the same points as an uninterrupted one."""
    losses: LossWindow = field(default_factory=LossWindow)
    """Window of losses that the watchdog compares with."""
    rollbacks: int = 0
    """Number of times that training went back to a checkpoint."""
    phases_began: list[int] = field(default_factory=lambda: [0])
    """Number of finished updates at the begin of each phase of the curriculum that has begun."""

    def count_validation(self, value: float, *, remember: bool) -> None:
        """Record the value of a validation. Lower is better. With `remember`, keep it in `scores`."""
        value = math.inf if math.isnan(value) else value
        self.validations_since_best = 0 if value < self.best else self.validations_since_best + 1
        self.best = min(self.best, value)
        if remember:
            self.scores[str(self.update)] = value

    def to_json(self) -> str:
        """Return the progress as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Progress":
        """Return the progress from JSON."""
        values = json.loads(text)
        return Progress(**values | {"losses": LossWindow(**values["losses"])})
