"""How a training job ended: one small file in its folder, since exit codes do not travel well.

`torchrun`, Slurm and Kubernetes each make something else of the exit code of a process, and start processes again that
would only fail once more. The file says what they cannot. There is none while the job runs, nor after a crash.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

_FILE = "status.json"


@dataclass(frozen=True)
class Status:
    """The end of a job."""

    state: Literal["finished", "stopped", "failed"]
    """All updates are done; it was asked to stop, or has spent its budget; or it cannot go on."""
    update: int = 0
    """Updates that are done and saved."""
    error: str = ""
    """Why it cannot go on."""
    budget: str = ""
    """What of its budget is spent, if it was stopped because of that."""


def write_status(folder: Path, status: Status) -> None:
    """Note the end, in one step."""
    draft = folder / f"{_FILE}.partial"
    draft.write_text(json.dumps(asdict(status)), encoding="utf-8")
    draft.replace(folder / _FILE)


def read_status(folder: Path) -> Status | None:
    """The end, if it has come."""
    try:
        return Status(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def clear_status(folder: Path) -> None:
    """Forget how the last attempt ended: there will be another."""
    (folder / _FILE).unlink(missing_ok=True)
