"""How often processes have died in vain: `torchrun` counts all deaths of a job, however far it has come meanwhile."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_FILE = "restarts.json"
_MOST_IN_VAIN = 3


@dataclass(frozen=True)
class _Seen:
    """What was found when a checkpoint was the newest for the first time."""

    newest: int
    """Its update; -1: there was none yet."""
    restarts: int
    """Restarts that `torchrun` had counted by then."""


def restart_limit_reached(folder: Path, newest: int, restarts: int) -> str:
    """Why another start would not help, in words; empty if it may. Notes what it is told for the next time.

    Args:
        folder: of the run.
        newest: update of the newest checkpoint; -1 if there is none.
        restarts: how often `torchrun` has started the processes again so far.
    """
    seen = _read(folder)
    if not seen or newest != seen.newest or restarts < seen.restarts:  # fewer: another `torchrun` counts anew
        draft = folder / f"{_FILE}.partial"
        with suppress(OSError):  # a full disk costs the note, and not the training
            draft.write_text(json.dumps(asdict(_Seen(newest, restarts))), encoding="utf-8")
            draft.replace(folder / _FILE)
        return ""
    in_vain = restarts - seen.restarts
    if in_vain <= _MOST_IN_VAIN:
        return ""
    since = f"since the checkpoint of update {newest:,}" if newest >= 0 else "before there was a checkpoint"
    return (
        f"processes have died {in_vain} times {since}: look for the cause in the log above, or in that of the system "
        "if they were killed; the same command goes on"
    )


def forget_restarts(folder: Path) -> None:
    """The job begins, or has ended."""
    (folder / _FILE).unlink(missing_ok=True)


def _read(folder: Path) -> _Seen | None:
    try:
        return _Seen(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
