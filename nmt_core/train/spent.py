"""What a training has taken of its machines, over all its attempts, and whether that is all that it may take.

It stands in a file of its own and in no checkpoint: what was spent after the last checkpoint was spent all the same.
"""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from nmt_core.config import BudgetConfig

_FILE = "spent.json"
_SECONDS_BETWEEN_NOTES = 5.0  # what is lost to kill -9
_HOUR = 3_600


@dataclass(frozen=True)
class Spent:
    """Sums over attempts."""

    seconds: float = 0.0
    """From the start of the processes to their end."""
    gpu_seconds: float = 0.0
    """The same for each GPU."""
    cpu_seconds: float = 0.0
    """CPU time of the first process, times their number: all do the same in step."""
    attempts: int = 0

    def plus(self, other: "Spent", times: int = 1) -> "Spent":
        """Both together; with `times=-1`, this without the other."""
        return Spent(
            self.seconds + times * other.seconds,
            self.gpu_seconds + times * other.gpu_seconds,
            self.cpu_seconds + times * other.cpu_seconds,
            self.attempts + times * other.attempts,
        )

    def over(self, budget: BudgetConfig) -> str:
        """Which part of a budget is spent, in words; empty if none is."""
        parts = (
            ("max_gpu_hours", self.gpu_seconds / _HOUR, budget.max_gpu_hours, "GPU hours"),
            ("max_hours", self.seconds / _HOUR, budget.max_hours, "hours"),
        )
        for knob, hours, most, unit in parts:
            if 0 < most <= hours:
                attempts = f" in {self.attempts} attempts" if self.attempts > 1 else ""
                return f"{hours:.4g} {unit}{attempts}, and budget.{knob}={most:g}"
        return ""


def read_spent(folder: Path) -> Spent:
    """What the training in a folder has taken so far."""
    try:
        return Spent(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Spent()


class Meter:
    """Counts one attempt on top of those before it. The first process has one, and speaks for all.

    Args:
        folder: of the run.
        budget: what it may take in all.
        processes: how many train.
        gpus: how many of them compute on a GPU.
    """

    def __init__(self, folder: Path, budget: BudgetConfig, processes: int, gpus: int) -> None:
        self._folder = folder
        self._budget = budget
        self._processes = processes
        self._gpus = gpus
        self._before = read_spent(folder)
        self._start = time.monotonic() - max(0.0, time.time() - psutil.Process().create_time())
        self._noted = 0.0
        self.over = ""
        """Which part of the budget is spent, once one is."""

    @property
    def spent(self) -> Spent:
        """Until now."""
        seconds = time.monotonic() - self._start
        mine = Spent(seconds, seconds * self._gpus, time.process_time() * self._processes, 1)
        return self._before.plus(mine)

    def is_over(self) -> bool:
        """Note what is spent, now and then, and say whether it is all that may be."""
        spent = self.spent
        if time.monotonic() - self._noted > _SECONDS_BETWEEN_NOTES:
            self.note()
        self.over = self.over or spent.over(self._budget)
        return bool(self.over)

    def note(self) -> None:
        """Write down what is spent. A full disk costs the note, and not the training."""
        self._noted = time.monotonic()
        draft = self._folder / f"{_FILE}.partial"
        try:
            draft.write_text(json.dumps(asdict(self.spent)), encoding="utf-8")
            draft.replace(self._folder / _FILE)
        except OSError:
            draft.unlink(missing_ok=True)
