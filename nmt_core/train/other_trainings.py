"""Find trainings that differ only in length, validations or checkpoints, so that one can continue another."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt_core.stages.stage import IDENTITY
from nmt_core.store.artifacts import MANIFEST, PARTIAL, Identity, Manifest
from nmt_core.train.weights import CHECKPOINTS

ONLY_THE_END = ("max_updates", "patience", "checkpoint_every", "validate_every", "keep_checkpoints", "max_rollbacks")
"""Options of `train` that change no update of the weights."""


@dataclass(frozen=True)
class Other:
    """Training that differs in `ONLY_THE_END` at most."""

    folder: Path
    train: Mapping[str, Any]
    """Options of its section `train` that are part of its fingerprint."""

    @property
    def name(self) -> str:
        """Short address, such as `train/0123456789ab`."""
        return f"train/{self.folder.name.removesuffix(PARTIAL)[:12]}"

    @property
    def update(self) -> int:
        """Update of its newest checkpoint, see `newest_update`."""
        return newest_update(self.folder)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the records of one of its files, without a line that a crash has cut off."""
        file = self.folder / name
        lines = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
        return [json.loads(line) for line in lines if line.endswith(b"\n")]


class UnfitError(Exception):
    """Another training cannot be continued. The message holds the reason."""


def newest_update(training: Path) -> int:
    """Return the update of the newest checkpoint in a training's folder, or 0 if there is none."""
    indexes = (training / CHECKPOINTS).glob("*/.metadata")
    return max((int(file.parent.name) for file in indexes if file.parent.name.isdigit()), default=0)


def other_trainings(out: Path, own: Identity) -> list[Other]:
    """Return the other trainings that differ in `ONLY_THE_END` at most, finished or not, the longest first.

    Args:
        out: folder of the training, which need not exist. The others are in the same parent folder.
        own: identity of the training.
    """
    return sorted(_others(out, own), key=lambda other: other.update, reverse=True)


def _others(out: Path, own: Identity) -> Iterator[Other]:
    if not out.parent.is_dir():
        return
    for folder in sorted(out.parent.iterdir()):
        is_the_one = folder.name.removesuffix(PARTIAL) == out.name.removesuffix(PARTIAL)
        if is_the_one or not folder.is_dir() or folder.name.endswith(f".old{PARTIAL}"):
            continue
        identity = _identity_in(folder)
        if identity and _without_the_end(identity) == _without_the_end(own):
            other = Other(folder, identity["config"]["train"])
            if other.update:
                yield other


def _identity_in(folder: Path) -> Identity | None:
    with suppress(OSError, ValueError):
        if (folder / MANIFEST).is_file():
            return Manifest.model_validate_json((folder / MANIFEST).read_bytes()).identity
        identity: Identity = json.loads((folder / IDENTITY).read_text(encoding="utf-8"))
        return identity
    return None


def _without_the_end(identity: Identity) -> Identity:
    config = identity.get("config", {})
    train = {name: value for name, value in config.get("train", {}).items() if name not in ONLY_THE_END}
    return dict(identity) | {"config": dict(config) | {"train": train}}
