"""How far training is."""

import json
import math
from dataclasses import asdict, dataclass, field

from nmt_core.train.watchdog import LossWindow


@dataclass
class Progress:
    """How far training is; with the configuration, the whole state of the data and of the random numbers."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    """Updates of this epoch that are done."""
    best_dev_loss: float = math.inf
    best: float = math.inf
    """Least value of a validation (`count_validation`)."""
    validations_since_best: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    """Value of each validation by update, if the best checkpoints are kept."""
    window: list[float] = field(default_factory=lambda: [0.0] * 4)
    """Sums since the last point of the curves: a resumed run draws the point that an undisturbed one draws."""
    losses: LossWindow = field(default_factory=LossWindow)
    """What the watchdog compares with."""
    rollbacks: int = 0
    """How often the watchdog has gone back."""

    def count_validation(self, value: float, *, remember: bool) -> None:
        """Note how good the model is now: the less `value` is, the better."""
        value = math.inf if math.isnan(value) else value
        self.validations_since_best = 0 if value < self.best else self.validations_since_best + 1
        self.best = min(self.best, value)
        if remember:
            self.scores[str(self.update)] = value

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Progress":
        """From text."""
        values = json.loads(text)
        return Progress(**values | {"losses": LossWindow(**values["losses"])})
