"""The curve of an unfinished training, as far as the training has made it itself."""

import json
from pathlib import Path

from nmt_core.train.continuing import read_continued

UNDER_WAY = "artifacts/train/*.partial"
"""Folders of unfinished trainings in a home."""


def continued_at(folder: Path) -> int:
    """Return the update at which the training in a folder continues another one, or 0 if it continues none."""
    continued = read_continued(folder)
    return continued.update if continued else 0


def saved_at(folder: Path) -> int:
    """Return the update of the newest complete checkpoint that the training in a folder has saved itself, or 0."""
    saved = [int(file.parent.name) for file in folder.glob("checkpoints/*/.metadata")]
    return max((update for update in saved if update > continued_at(folder)), default=0)


def own_updates(folder: Path) -> list[int]:
    """Return the updates of the curve that a training has made itself, in order.

    A training that continues a shorter one takes over the curve and the checkpoint of that training before it starts.
    """
    curve = folder / "metrics.jsonl"
    lines = curve.read_text().splitlines() if curve.exists() else []
    updates = [json.loads(line)["update"] for line in lines if "train_loss" in line and line.endswith("}")]
    return [update for update in updates if update > continued_at(folder)]


def trains(home: Path) -> bool:
    """Return True if a training of a home has made updates of its own."""
    return any(map(own_updates, home.glob(UNDER_WAY)))
