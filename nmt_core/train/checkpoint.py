"""Save and load checkpoints, which hold all that a training needs to resume, and the weights alone for averaging.

Layout below the folder of a training run::

    checkpoints/<update>/           weights, optimizer and progress, by torch.distributed.checkpoint. `.metadata` is
                                    written last and marks a complete checkpoint. Every file ends in its checksum.
    weights/<update>.safetensors    the weights, written before the checkpoint
    weights/<update>.ema.safetensors  their moving average, for the newest checkpoint only

A checkpoint loads into any number of processes, however the weights are spread over them. The state is copied at once
and written while training continues.
"""

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict, set_optimizer_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.optim import Optimizer

from nmt_core.errors import StageError
from nmt_core.train.checkpoint_folder import CheckpointFolder, DamagedError, OtherVersionsError, cause_of
from nmt_core.train.checksums import Writer, versions
from nmt_core.train.distributed import World, is_alone
from nmt_core.train.moving_average import MovingAverage
from nmt_core.train.parallel import Parallel, whole_copies
from nmt_core.train.progress import Progress
from nmt_core.train.weight_files import WeightFiles
from nmt_core.train.weights import CHECKPOINTS as _CHECKPOINTS
from nmt_core.train.weights import WEIGHTS, Label

_TESTED_WITH = "Python 3.11, 3.12 or 3.13 and PyTorch 2.13"  # by the tests of this project
_KEPT_FOR_RESUME = 2  # a crash may tear the newest: the one before it is the spare


@dataclass(frozen=True)
class Training:
    """Content of a checkpoint, except the progress."""

    parallel: Parallel
    optimizer: Optimizer
    moving_average: MovingAverage | None = None

    def state(self) -> dict[str, Any]:
        """Return all tensors, to save them or to load into them."""
        weights, moments = get_state_dict(self.parallel.model, self.optimizer)
        average = {"moving_average": self.moving_average.tensors} if self.moving_average else {}
        return {"model": weights, "optimizer": moments, **average}


@dataclass(frozen=True)
class _Pending:
    """Checkpoint that is being written."""

    path: Path
    done: Future[Any]


class Checkpoints:
    """Checkpoints of one training run. Every process has an instance, and calls the same methods in step.

    Args:
        folder: folder of the run.
        keep: number of last checkpoints whose weights are kept.
        world: the processes.
        warn: receives a message when a checkpoint cannot be written or read and an older one exists.
        keep_best: number of additional checkpoints whose weights are kept: the ones with the lowest values in
            `Progress.scores`.
        label: metadata of the files of weights. None writes none.
    """

    def __init__(
        self,
        folder: Path,
        keep: int,
        world: World,
        warn: Callable[[str], None] = lambda message: None,
        keep_best: int = 0,
        label: Label | None = None,
    ) -> None:
        self._folder = folder
        self._places = CheckpointFolder(folder / _CHECKPOINTS, world)
        self._weights = WeightFiles(folder / WEIGHTS, keep, keep_best, label)
        self._scores: Mapping[str, float] = {}
        self._world = world
        self._warn = warn
        self._pending: _Pending | None = None
        # A process group of its own keeps the messages of a running save apart from the messages of training.
        self._group = dist.new_group(backend="gloo")

    def complete(self) -> list[Path]:
        """Return the complete checkpoints, oldest first. Called by every process."""
        return self._places.complete()

    @property
    def newest(self) -> int:
        """Update of the newest complete checkpoint, or -1 if there is none. Read by every process."""
        return max((int(path.name) for path in self.complete()), default=-1)

    def save(self, training: Training, progress: Progress, *, with_weights: bool) -> None:
        """Copy the state and begin to write it. If the previous checkpoint is not written yet, wait for it first.

        Args:
            training: state to save.
            progress: progress of the training.
            with_weights: True to write the files of weights too. They are averaged, so this must not depend on when
                the job was stopped.

        Raises:
            StageError: a checkpoint could not be written, and there is no older one.
        """
        self.wait()
        self._scores = dict(progress.scores)
        path = self._folder / _CHECKPOINTS / f"{progress.update:09d}"
        problem = self._write_weights(training, path.name) if with_weights else None
        if self._has_failed(path, problem):
            return
        state = training.state() | {"progress": progress.to_json()}
        done = async_save(state, storage_writer=Writer(path), process_group=self._group, no_dist=is_alone())
        self._pending = _Pending(path, cast(Future[Any], done))

    @property
    def is_written(self) -> bool:
        """True if this process has written its part of the pending checkpoint. When all have, `wait` is due."""
        return self._pending is not None and self._pending.done.done()

    def wait(self) -> None:
        """Wait until the pending checkpoint is complete, then remove checkpoints and weights that are too old.

        Raises:
            StageError: the checkpoint could not be written, and there is no older one.
        """
        pending, self._pending = self._pending, None
        if not pending:
            return
        if not self._has_failed(pending.path, pending.done.exception()) and self._world.is_first:
            self._remove_old(_KEPT_FOR_RESUME)

    def save_first(self, training: Training, progress: Progress) -> None:
        """Save a checkpoint and read it back, before hours are spent on a training that cannot be resumed.

        Raises:
            StageError: the checkpoint could not be written, or cannot be read.
        """
        self.save(training, progress, with_weights=False)
        self.wait()
        (path,) = self.complete()
        problem = ""
        try:
            if self._load(training, path) != progress:
                problem = "its progress differs from the saved one"
        except DamagedError as error:
            problem = f"{error}"
        if problem:
            if self._world.is_first:
                self._places.leave_out(path)  # nothing is learnt yet
            raise StageError(
                f"{path}: {versions()} cannot read the first checkpoint back ({problem}), so this training could not "
                "be resumed: check that its disk is sound, or recreate the environment with "
                f"{_TESTED_WITH}, then run the same command again"
            )

    def load_newest(self, training: Training) -> Progress:
        """Load the newest readable checkpoint and return its progress. Without any checkpoint, change nothing.

        Raises:
            StageError: no checkpoint can be read, or other versions wrote one that cannot be read here.
        """
        problems: dict[Path, str] = {}
        for path in reversed(self.complete()):
            try:
                progress = self._load(training, path)
            except OtherVersionsError as error:
                raise StageError(
                    f"checkpoint {int(path.name):,} was written by {error.versions}, and {versions()} cannot read it "
                    f"({error}): run the same command with the versions that wrote it, or move {path} elsewhere to "
                    "resume without it"
                ) from None
            except DamagedError as error:
                problems[path] = f"{error}"
                continue
            for damaged, problem in problems.items():
                self._warn(f"checkpoint {int(damaged.name):,} cannot be read ({problem}): {int(path.name):,} is used")
                if self._world.is_first:
                    self._places.leave_out(damaged)
            self._scores = dict(progress.scores)
            return progress
        if problems:
            path, problem = next(iter(problems.items()))
            raise StageError(
                f"{path.parent}: {versions()} can read no checkpoint (newest: {problem}): restore these files, or use "
                "the Python and PyTorch that wrote them, or move the folder elsewhere to start from the beginning, "
                "then run the same command again"
            )
        training.state()  # creates the optimizer state by a step without a gradient, which must not count
        for state in training.optimizer.state.values():
            state["step"].zero_()
        return Progress()

    def _load(self, training: Training, path: Path) -> Progress:
        """Load one checkpoint and return its progress.

        Raises:
            DamagedError: a process cannot read it. Raised in all processes. Weights may already be changed.
        """
        state = training.state() | {"progress": ""}
        self._places.read(state, path)
        set_state_dict(
            training.parallel.model,
            training.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        return Progress.from_json(state["progress"])

    def discard_newest(self) -> None:
        """Leave out the newest checkpoint, and remove its weights, if there is an older one.

        The newest checkpoint may have been saved after training went wrong, before this showed. Called by every
        process.
        """
        *older, newest = self.complete()
        if older and self._world.is_first:
            self._places.leave_out(newest)
            self._weights.remove(newest.name)

    def take_over_moments(self, training: Training, checkpoint: Path) -> None:
        """Load Adam's moments, and the number of their steps, from a checkpoint of another training.

        Learning rates and decays of this training stay. Called by every process.

        Raises:
            StageError: the checkpoint cannot be read.
        """
        own = training.state()["optimizer"]
        loaded = {"optimizer": {"state": own["state"]}}
        try:
            self._places.read(loaded, checkpoint)
        except DamagedError as error:
            wrote = error.versions if isinstance(error, OtherVersionsError) else "the Python and PyTorch"
            raise StageError(
                f"train.start_optimizer=kept: the checkpoint {checkpoint} cannot be read by {versions()} ({error}): "
                f"restore it, or use {wrote} that wrote it, or set train.start_optimizer to fresh"
            ) from None
        moments = loaded["optimizer"] | {"param_groups": own["param_groups"]}
        set_optimizer_state_dict(training.parallel.model, training.optimizer, moments)

    def finish(self, update: int) -> None:
        """Keep only the checkpoint of the last update. It is complete, so that no spare is needed.

        Raises:
            StageError: the checkpoint could not be written.
        """
        self.wait()
        if self.newest != update:
            raise StageError(
                f"{self._folder}: the last checkpoint, of update {update:,}, could not be written: free space, then "
                "run the same command again"
            )
        if self._world.is_first:
            self._remove_old(1)

    def _write_weights(self, training: Training, name: str) -> Exception | None:
        """Write the files of weights. Return the error if a file could not be written."""
        average = training.moving_average
        weights = whole_copies(training.parallel.parameters())
        averaged = whole_copies(average.tensors) if average else None
        return self._weights.write(name, weights, averaged) if self._world.is_first else None

    def _has_failed(self, path: Path, problem: BaseException | None) -> bool:
        """Return True if any process has a problem with a checkpoint, and remove what is written of it.

        Raises:
            StageError: there is no older checkpoint.
        """
        if not self._world.any(problem is not None):
            return False
        older = [checkpoint for checkpoint in self.complete() if checkpoint != path]
        why = cause_of(problem) if problem else "another process logs the cause"
        message = f"checkpoint {int(path.name):,} could not be written to {self._folder} ({why})"
        if self._world.is_first:
            shutil.rmtree(path, ignore_errors=True)
            self._weights.remove(path.name)
        if not older:
            raise StageError(f"{message}, and there is none before it: free space, then run the same command again")
        self._warn(
            f"{message}: training continues, and its newest complete checkpoint is at update {int(older[-1].name):,}"
        )
        return True

    def _remove_old(self, spare: int) -> None:
        for path in self._places.all() - set(self._places.seen()[-spare:]):
            shutil.rmtree(path, ignore_errors=True)
        self._weights.remove_old(self._scores)
