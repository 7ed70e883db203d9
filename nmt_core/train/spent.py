"""Measure the time that a training has spent over all its attempts, and compare it with the budget.

The numbers are in a file of their own, not in a checkpoint: time spent after the last checkpoint counts too.
"""

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from nmt_core.config import BudgetConfig
from nmt_core.config.budget import SECONDS_PER_HOUR
from nmt_core.store.atomic import write_atomically

_FILE = "spent.json"
_SECONDS_BETWEEN_NOTES = 5.0  # kill -9 loses up to this much


@dataclass(frozen=True)
class Spent:
    """Time that a training has spent, summed over its attempts."""

    seconds: float = 0.0
    """Seconds from the start of the processes to their end."""
    gpu_seconds: float = 0.0
    """`seconds` times the number of GPUs."""
    cpu_seconds: float = 0.0
    """CPU time of the first process times the number of processes, which all do the same work."""
    attempts: int = 0
    """Number of attempts."""
    node_seconds: float = 0.0
    """Time that a cluster counts for the job, times its nodes: from their allocation to their return."""

    def plus(self, other: "Spent", times: int = 1) -> "Spent":
        """Return the sum of this and `times` the other. With `times=-1`, this is the difference."""
        return Spent(
            self.seconds + times * other.seconds,
            self.gpu_seconds + times * other.gpu_seconds,
            self.cpu_seconds + times * other.cpu_seconds,
            self.attempts + times * other.attempts,
            self.node_seconds + times * other.node_seconds,
        )

    def over(self, budget: BudgetConfig) -> str:
        """Return a text that names the part of the budget that is spent, or "" if none is."""
        parts = (
            ("max_gpu_hours", self.gpu_seconds / SECONDS_PER_HOUR, budget.max_gpu_hours, "GPU hours"),
            ("max_hours", self.seconds / SECONDS_PER_HOUR, budget.max_hours, "hours"),
        )
        for option, hours, most, unit in parts:
            if 0 < most <= hours:
                attempts = f" in {self.attempts} attempts" if self.attempts > 1 else ""
                return f"{hours:.4g} {unit}{attempts}, and budget.{option}={most:g}"
        return ""


def read_spent(folder: Path) -> Spent:
    """Return the time that the training in a folder has spent so far."""
    try:
        return Spent(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Spent()


def note_allocation(folder: Path, node_seconds: float) -> None:
    """Add the time that a cluster counts for a job that has ended."""
    spent = read_spent(folder)
    _write(folder, spent.plus(Spent(node_seconds=node_seconds)))


def _write(folder: Path, spent: Spent) -> None:
    write_atomically(folder / _FILE, json.dumps(asdict(spent)))


class Meter:
    """Meter of one attempt, on top of the earlier ones. The numbers of the first process count.

    Args:
        folder: folder of the run.
        budget: budget of all attempts together.
        processes: number of training processes.
        gpus: number of processes that compute on a GPU.
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
        """Text that names the part of the budget that is spent. Empty while none is."""

    @property
    def spent(self) -> Spent:
        """Time spent until now, earlier attempts included."""
        seconds = time.monotonic() - self._start
        mine = Spent(seconds, seconds * self._gpus, time.process_time() * self._processes, 1)
        return self._before.plus(mine)

    def is_over(self) -> bool:
        """Return True if the budget is spent. Write the time spent to the file every few seconds."""
        spent = self.spent
        if time.monotonic() - self._noted > _SECONDS_BETWEEN_NOTES:
            self.note()
        self.over = self.over or spent.over(self._budget)
        return bool(self.over)

    def note(self) -> None:
        """Write the time spent to the file. A full disk does not stop training."""
        self._noted = time.monotonic()
        with suppress(OSError):
            _write(self._folder, self.spent)
