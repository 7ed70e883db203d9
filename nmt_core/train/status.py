"""Store the outcome of a training job in a small file in its folder, because exit codes are not passed on reliably.

`torchrun`, Slurm and Kubernetes each change the exit code of a process, and restart processes that would only fail
again. The file does not exist while the job runs, nor after a crash.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from nmt_core.store.atomic import write_atomically

_FILE = "status.json"


@dataclass(frozen=True)
class Status:
    """Outcome of a training job."""

    state: Literal["finished", "stopped", "failed"]
    """`finished` after the last update, `stopped` after a signal or with its budget spent, `failed` after an error."""
    update: int = 0
    """Number of updates that are done and saved."""
    error: str = ""
    """Message of the error, if the job failed."""
    budget: str = ""
    """Part of the budget that is spent, if the job stopped because of it."""
    processes: int = 0
    """Number of training processes."""

    def holds_for(self, processes: int) -> bool:
        """Return False if the job stopped only to begin again with more processes.

        When a node joins, `torchrun` signals the processes as a scheduler does that takes the nodes away. It then
        starts more of them, and with fewer nodes it never does.
        """
        is_joined = self.state == "stopped" and not self.budget and 0 < self.processes < processes
        return not is_joined


def write_status(folder: Path, status: Status) -> None:
    """Write the outcome of a job atomically."""
    write_atomically(folder / _FILE, json.dumps(asdict(status)))


def read_status(folder: Path) -> Status | None:
    """Return the outcome of a job, or None if it runs or has crashed."""
    try:
        return Status(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def clear_status(folder: Path) -> None:
    """Remove the outcome of the last attempt, before another one."""
    (folder / _FILE).unlink(missing_ok=True)
