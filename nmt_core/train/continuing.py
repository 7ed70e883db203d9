"""Continue from the checkpoint of another training that differs only in its length, validations or checkpoints.

`train.max_updates` and the other options of `ONLY_THE_END` change no update of the weights. A training with other
values for them therefore resumes from the newest checkpoint of a training that differs in nothing else, and ends
bit-identical to a training from update 0. The results that these options do decide, such as the best validation and
the kept weights, are recomputed from the files of the other training. Where this is impossible, or the other training
took another course, the training begins at update 0, and the log gives the reason.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from nmt_core.config import TrainConfig
from nmt_core.errors import counted
from nmt_core.stages.stage import IDENTITY
from nmt_core.store.artifacts import PARTIAL, REPORT, Identity
from nmt_core.store.atomic import replacing
from nmt_core.train.curriculum import phases_of
from nmt_core.train.curves import LOG_EVERY, METRICS
from nmt_core.train.other_trainings import Other, UnfitError, newest_update, other_trainings
from nmt_core.train.progress import Progress, watched
from nmt_core.train.watchdog import INCIDENTS
from nmt_core.train.weights import CHECKPOINTS, WEIGHTS

CONTINUED = "continued.json"
"""File that names the training, and the update, that a training continues from."""

_Point = Mapping[str, Any]


class Continued(BaseModel):
    """Update at which a training continues another one, and its progress there by its own options."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")
    name: str
    """Name of the other training, for display."""
    update: int
    best_dev_loss: float
    best: float
    validations_since_best: int
    scores: dict[str, float]

    def correct(self, progress: Progress) -> None:
        """Replace the validation counts of the other training, if its checkpoint at `update` was loaded."""
        if progress.update == self.update:
            progress.best_dev_loss, progress.best = self.best_dev_loss, self.best
            progress.validations_since_best, progress.scores = self.validations_since_best, dict(self.scores)


@dataclass(frozen=True)
class _Legacy:
    """Files that a training would have written by an update that another training has reached."""

    continued: Continued
    points: list[dict[str, Any]]
    incidents: list[dict[str, Any]]
    checkpoint: Path
    weights: list[Path]


def read_continued(out: Path) -> Continued | None:
    """Return the training that the one in a folder continues from, or None if there is none."""
    with suppress(FileNotFoundError):
        values = json.loads((out / CONTINUED).read_text(encoding="utf-8"))
        return Continued(**values)
    return None


def take_up_another(out: Path, config: TrainConfig, log: Callable[[str], None]) -> Continued | None:
    """Let the training in a new folder continue from the newest checkpoint of another training, if one is suitable.

    Args:
        out: folder of the training, which holds its identity.
        config: options of the training.
        log: receives a message for the training that is continued, and for each one that is not, with the reason.

    Returns:
        The training that is continued, or None. A folder with checkpoints keeps its earlier result.
    """
    if any((out / CHECKPOINTS).glob("*/.metadata")):
        return read_continued(out)
    own = json.loads((out / IDENTITY).read_text(encoding="utf-8")) if (out / IDENTITY).is_file() else None
    for other in other_trainings(out, own) if own else ():
        with _held(other.folder) as is_free:
            try:
                if not is_free:
                    raise UnfitError("it is being trained")
                legacy = _examine(other, config)
                _take(legacy, out)
            except (UnfitError, OSError) as error:
                log(f"not continuing from {other.name}, with {counted(other.update, 'update')}: {error}")
                _clear(out)
                continue
        log(f"continuing from {other.name}, which has made the first {legacy.continued.update:,} updates")
        return legacy.continued
    return None


def foresee(out: Path, own: Identity, config: TrainConfig) -> str | None:
    """Describe the checkpoint that a training would resume from if it began now. Return None for update 0.

    Damage of the checkpoint, and another process that trains in its folder, are noticed only when training begins.

    Args:
        out: folder of the training, which need not exist.
        own: identity of the training.
        config: options of the training.
    """
    if update := newest_update(out):
        return f"resumes from update {update:,}"
    for other in other_trainings(out, own):
        with suppress(UnfitError, OSError):
            continued = _examine(other, config).continued
            return f"resumes from update {continued.update:,} of {continued.name}"
    return None


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Lock the folder of another training within the block. Yield False if its own command holds the lock."""
    lock = FileLock(folder.with_name(f"{folder.name.removesuffix(PARTIAL)}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _examine(other: Other, config: TrainConfig) -> _Legacy:
    """Return the files that the training would have by the newest update of `other`. Do not check the checkpoint.

    Raises:
        UnfitError: the other training is not suitable.
    """
    update = other.update
    if update >= config.max_updates:
        raise UnfitError(f"this training ends at {config.max_updates:,}")
    points, incidents = other.lines(METRICS), _incidents(other, config)
    points = [point for point in points if point["update"] <= update]
    _require_its_curve(other, points)
    continued = _replayed(other, points, config)
    weights = _weights(other, config, continued.scores)
    kept = [point for point in points if _is_ours(point, config)]
    return _Legacy(continued, kept, incidents, other.folder / CHECKPOINTS / f"{update:09d}", weights)


def _take(legacy: _Legacy, out: Path) -> None:
    _require_sound(legacy.checkpoint)
    _link(legacy.checkpoint, out / CHECKPOINTS / legacy.checkpoint.name)
    for file in legacy.weights:
        _link(file, out / WEIGHTS / file.name)
    (out / METRICS).write_text("".join(f"{json.dumps(point)}\n" for point in legacy.points), encoding="utf-8")
    if legacy.incidents:
        (out / INCIDENTS).write_text(
            "".join(f"{json.dumps(incident)}\n" for incident in legacy.incidents), encoding="utf-8"
        )
    (out / CONTINUED).write_text(json.dumps(legacy.continued.model_dump()), encoding="utf-8")


def _is_ours(point: _Point, config: TrainConfig) -> bool:
    """Return True if this training would have this point too: the end of a training adds one more of each kind."""
    every = config.validate_every if "dev_loss" in point else LOG_EVERY
    return int(point["update"]) % every == 0


def _require_its_curve(other: Other, points: list[dict[str, Any]]) -> None:
    """Refuse a last checkpoint of an earlier version, which lost the sums since the last point of the curves.

    Raises:
        UnfitError: the checkpoint is between two points, and an earlier version wrote it.
    """
    report = other.folder / REPORT
    is_cut = other.update % LOG_EVERY and any(
        "train_loss" in point and point["update"] == other.update for point in points
    )
    if is_cut and report.is_file() and "continued_from" not in json.loads(report.read_text(encoding="utf-8")):
        raise UnfitError(
            "an earlier version of this package wrote its last checkpoint, which is between two points of the curves"
        )


def _replayed(other: Other, points: list[dict[str, Any]], config: TrainConfig) -> Continued:
    """Return the progress of this training at that update, from the validations of the other training.

    Raises:
        UnfitError: a validation is missing, or this training would end earlier.
    """
    by_update = {int(point["update"]): point for point in points if "dev_loss" in point}
    ends, patience = _ends_of_phases(config), phases_of(config)[-1].patience
    last_begins = max(ends, default=0)
    best_dev_loss = best = math.inf
    since_best, scores = 0, dict[str, float]()
    for update in range(config.validate_every, other.update + 1, config.validate_every):
        point = by_update.get(update)
        if point is None:
            raise UnfitError(f"it did not validate at update {update:,}, which train.validate_every requires")
        loss = float(point["dev_loss"])
        best_dev_loss = min(best_dev_loss, loss)
        value = watched(config, point)
        if value is not None:
            value = math.inf if math.isnan(value) else value
            since_best = 0 if value < best else since_best + 1
            best = min(best, value)
            if config.keep_best:
                scores[str(update)] = value
        if last_begins < update and 0 < patience <= since_best:
            raise UnfitError(f"by train.patience this training ends at update {update:,}")
        if update in ends:  # the next phase counts its own validations
            best, since_best = math.inf, 0
    return Continued(
        name=other.name,
        update=other.update,
        best_dev_loss=best_dev_loss,
        best=best,
        validations_since_best=since_best,
        scores=scores,
    )


def _ends_of_phases(config: TrainConfig) -> list[int]:
    """Return the updates after which the phases of the curriculum end, except the last phase.

    Raises:
        UnfitError: validations decide when a phase ends.
    """
    *earlier, _ = phases_of(config)
    if by_patience := [phase.name for phase in earlier if phase.patience]:
        raise UnfitError(f"its validations decided when phase {by_patience[0]} of its curriculum ended")
    return list(accumulate(phase.updates for phase in earlier))


def _incidents(other: Other, config: TrainConfig) -> list[dict[str, Any]]:
    """Return the incidents after which the other training went back. This training would have had the same ones.

    Raises:
        UnfitError: this training would have resumed from other checkpoints, or would have failed.
    """
    rollbacks = [incident for incident in other.lines(INCIDENTS) if incident["back_to"] is not None]
    if rollbacks and other.train["checkpoint_every"] != config.checkpoint_every:
        raise UnfitError("it went back to a checkpoint that depends on train.checkpoint_every")
    if len(rollbacks) > config.max_rollbacks:
        raise UnfitError(
            f"it went back {counted(len(rollbacks), 'time')}, and train.max_rollbacks is {config.max_rollbacks}"
        )
    if any(other.update <= incident["back_to"] for incident in rollbacks):
        raise UnfitError("it went back to its newest checkpoint, and has saved none since")
    return rollbacks


def _weights(other: Other, config: TrainConfig, scores: Mapping[str, float]) -> list[Path]:
    """Return the files of weights of the other training that this training would have by that update.

    Raises:
        UnfitError: weights that this training would keep are missing.
    """
    update, every = other.update, config.checkpoint_every
    there = {int(file.stem): file for file in (other.folder / WEIGHTS).glob("*.safetensors") if file.stem.isdigit()}
    there = {number: file for number, file in there.items() if number % every == 0 and number <= update}
    saved = range(every, update + 1, every)
    last = list(saved)
    if not config.patience:  # then the last update is known, and only weights kept at the end must exist
        ahead = set(range(every, config.max_updates + 1, every)) | {config.max_updates}
        last = [number for number in last if number in sorted(ahead)[-config.keep_checkpoints :]]
    ranked = sorted((scores[str(number)], -number) for number in saved if str(number) in scores)
    best = [-number for _, number in ranked[: config.keep_best]]
    missing = [number for number in (*last[-config.keep_checkpoints :], *best) if number not in there]
    if missing:
        raise UnfitError(f"it has no weights of update {missing[0]:,}, which this training would have kept")
    return list(there.values())


def _require_sound(checkpoint: Path) -> None:
    from nmt_core.train.checksums import damage_of  # imports torch

    for file in sorted(path for path in checkpoint.iterdir() if path.is_file()):
        if problem := damage_of(file):
            raise UnfitError(problem)


def _link(source: Path, target: Path) -> None:
    """Link a file or a folder, or copy it where links are impossible. Files of a training never change in place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir()
        *files, index = sorted(source.iterdir(), key=lambda file: file.name == ".metadata")
        for file in (*files, index):  # the index last: it marks a complete checkpoint
            _link(file, target / file.name)
        return
    try:
        os.link(source, target)
    except OSError:
        with replacing(target) as draft:
            shutil.copyfile(source, draft)


def _clear(out: Path) -> None:
    """Remove what was copied before an error."""
    for name in (CHECKPOINTS, WEIGHTS):
        shutil.rmtree(out / name, ignore_errors=True)
    for name in (METRICS, INCIDENTS, CONTINUED):
        (out / name).unlink(missing_ok=True)
