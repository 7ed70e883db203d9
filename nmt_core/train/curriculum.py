"""Follow the phases of a training, each with its own mix of the training corpora.

Which phase is current follows from the progress of the training alone, so a resumed training is in the same phase. A
training without a curriculum has one phase.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from nmt_core.config import CurriculumPhase, TrainConfig
from nmt_core.errors import StageError
from nmt_core.store.atomic import write_atomically
from nmt_core.train.progress import Progress

if TYPE_CHECKING:
    from nmt_core.batches.shards import TokenShards

PHASES = "phases.json"
"""File of a training with the phases that have begun."""


class BegunPhase(BaseModel):
    """Phase of a curriculum that has begun."""

    model_config = ConfigDict(frozen=True)
    phase: str
    began_after: int
    """Number of updates before it."""


def phases_of(config: TrainConfig) -> Sequence[CurriculumPhase]:
    """Return the phases of a training, at least one."""
    return config.curriculum or (CurriculumPhase(name="all", patience=config.patience),)


def current_phase(config: TrainConfig, progress: Progress) -> CurriculumPhase:
    """Return the phase that a training is in."""
    return phases_of(config)[len(progress.phases_began) - 1]


def phase_is_over(config: TrainConfig, progress: Progress) -> bool:
    """Return True if the current phase has made its updates, or is out of patience."""
    phase, updates = current_phase(config, progress), progress.update - progress.phases_began[-1]
    return 0 < phase.updates <= updates or 0 < phase.patience <= progress.validations_since_best


def training_is_over(config: TrainConfig, progress: Progress) -> bool:
    """Return True if a training has made its updates, or its last phase is over."""
    is_last = len(progress.phases_began) == len(phases_of(config))
    return progress.update >= config.max_updates or (is_last and phase_is_over(config, progress))


def begin_next_phase(progress: Progress) -> None:
    """Begin the phase after the current one: with an epoch of its own, and no validation yet."""
    progress.phases_began.append(progress.update)
    progress.epoch, progress.batch = progress.epoch + 1, 0
    progress.best, progress.validations_since_best = math.inf, 0


def stay_in_phase(progress: Progress, seen: Progress) -> None:
    """Keep the phase of `seen` in a training that went back to a checkpoint, which may be of an earlier phase."""
    if progress.phases_began != seen.phases_began:
        progress.phases_began = list(seen.phases_began)
        progress.best, progress.validations_since_best = math.inf, 0


def require_text(config: TrainConfig, shards: "TokenShards") -> None:
    """Check that each phase has a pair to read.

    Raises:
        StageError: the training text has no pair of the corpora of a phase.
        DataError: a shard is damaged.
    """
    without = [phase for phase in config.curriculum if phase.corpora]
    for group in range(len(shards.groups)):
        without = [phase for phase in without if not shards.weights([group], phase.corpora).any()]
        if not without:
            return
    if without:
        raise StageError(
            f"train.curriculum: phase {without[0].name} has no pair to read: the training text has none of "
            f"{', '.join(without[0].corpora)}, as `clean`, `split` or `mix` left none: name other corpora, or remove "
            "the phase"
        )


def write_phases(folder: Path, config: TrainConfig, progress: Progress) -> None:
    """Write the phases of a curriculum that have begun to the folder of the training."""
    begun = [
        BegunPhase(phase=phase.name, began_after=update).model_dump()
        for phase, update in zip(config.curriculum, progress.phases_began, strict=False)
    ]
    if begun:
        write_atomically(folder / PHASES, json.dumps(begun))


def read_phases(folder: Path) -> list[BegunPhase]:
    """Return the phases that have begun in the folder of a training. Empty means no curriculum."""
    file = folder / PHASES
    return [BegunPhase(**each) for each in json.loads(file.read_bytes())] if file.is_file() else []
