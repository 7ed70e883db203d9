"""Limit restarts without progress. `torchrun` counts all restarts of a job, including the ones followed by progress."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt_core.errors import counted
from nmt_core.store.atomic import write_atomically

_FILE = "restarts.json"
_MOST_IN_VAIN = 3


@dataclass(frozen=True)
class _Seen:
    """Number of restarts when a checkpoint was first seen as the newest."""

    newest: int
    """Update of the checkpoint, or -1 if there was none yet."""
    restarts: int
    """Number of restarts that `torchrun` had counted by then."""


def restart_limit_reached(folder: Path, newest: int, restarts: int) -> str | None:
    """Return the reason why another start would not help, or None if it may. Store the numbers for the next call.

    Args:
        folder: folder of the run.
        newest: update of the newest checkpoint, or -1 if there is none.
        restarts: number of times that `torchrun` has restarted the processes so far.
    """
    seen = _read(folder)
    if not seen or newest != seen.newest or restarts < seen.restarts:  # fewer: a new `torchrun` counts from 0
        with suppress(OSError):  # a full disk must not stop training
            write_atomically(folder / _FILE, json.dumps(asdict(_Seen(newest, restarts))))
        return None
    in_vain = restarts - seen.restarts
    if in_vain <= _MOST_IN_VAIN:
        return None
    times = counted(in_vain, "time")
    since = f"since the checkpoint of update {newest:,}" if newest >= 0 else "before there was a checkpoint"
    return (
        f"processes have died {times} {since}: look for the cause in the log above, or in the system "
        "log if they were killed, then run the same command to resume"
    )


def forget_restarts(folder: Path) -> None:
    """Remove the stored numbers, at the beginning and at the end of a job."""
    (folder / _FILE).unlink(missing_ok=True)


def _read(folder: Path) -> _Seen | None:
    try:
        return _Seen(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
