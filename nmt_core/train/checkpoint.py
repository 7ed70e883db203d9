"""Checkpoints: all that training needs to go on, and the weights alone for averaging.

Layout below the folder of a training run::

    checkpoints/<update>/           weights, optimizer and progress, by torch.distributed.checkpoint; `.metadata` is
                                    written last and marks a whole one, and every file ends in its checksum
    weights/<update>.safetensors    the weights, written before
    weights/<update>.ema.safetensors  their moving average, of the newest checkpoint only

A checkpoint loads into any number of processes, however the weights are spread over them. It is copied at once and
written while training goes on.
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

_TESTED_WITH = "Python 3.11, 3.12 or 3.13 and PyTorch 2.13"  # by this project's own tests
_KEPT_FOR_RESUME = 2  # the newest may be torn by a crash of the disk; the one before is the spare


@dataclass(frozen=True)
class Training:
    """What a checkpoint holds beside the progress."""

    parallel: Parallel
    optimizer: Optimizer
    moving_average: MovingAverage | None = None

    def state(self) -> dict[str, Any]:
        """All tensors, to be saved or loaded into."""
        weights, moments = get_state_dict(self.parallel.model, self.optimizer)
        average = {"moving_average": self.moving_average.tensors} if self.moving_average else {}
        return {"model": weights, "optimizer": moments, **average}


@dataclass(frozen=True)
class _Pending:
    """A checkpoint that is being written."""

    path: Path
    done: Future[Any]


class Checkpoints:
    """The checkpoints of one training run. Every process has one, and calls the same methods in step.

    Args:
        folder: of the run.
        keep: last checkpoints whose weights are kept.
        world: the processes.
        warn: told when a checkpoint cannot be written and an older one is there.
        keep_best: further checkpoints whose weights are kept: those with the least values in `Progress.scores`.
        label: what the files of weights say of themselves; None: nothing.
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
        # Messages of a save that is under way must not mix with those of training.
        self._group = dist.new_group(backend="gloo")

    def complete(self) -> list[Path]:
        """Whole checkpoints, oldest first."""
        return self._places.complete()

    @property
    def newest(self) -> int:
        """Update of the newest whole checkpoint; -1 if there is none. Asked by every process."""
        return max((int(path.name) for path in self.complete()), default=-1)

    def save(self, training: Training, progress: Progress, *, with_weights: bool) -> None:
        """Copy all, and begin to write it; when the one before is not written yet, wait for that.

        Args:
            training: what to save.
            progress: how far it is.
            with_weights: whether to write the files of weights too. They are averaged, so it must not depend on when a
                job was stopped.

        Raises:
            StageError: the one before could not be written, and there is no older one.
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
        """Whether a checkpoint has been begun and this process has done its part; when all have, `wait` is due."""
        return self._pending is not None and self._pending.done.done()

    def wait(self) -> None:
        """Wait until the checkpoint that was begun is whole; then remove what is too old.

        Raises:
            StageError: it could not be written, and there is no older one.
        """
        pending, self._pending = self._pending, None
        if not pending:
            return
        if not self._has_failed(pending.path, pending.done.exception()) and self._world.is_first:
            self._remove_old(_KEPT_FOR_RESUME)

    def save_first(self, training: Training, progress: Progress) -> None:
        """Save a checkpoint and read it back, before hours are spent on what could not be resumed.

        Raises:
            StageError: it could not be written, or cannot be read.
        """
        self.save(training, progress, with_weights=False)
        self.wait()
        (path,) = self.complete()
        problem = ""
        try:
            if self._load(training, path) != progress:
                problem = "its progress is not what was saved"
        except DamagedError as error:
            problem = f"{error}"
        if problem:
            if self._world.is_first:
                self._places.leave_out(path)  # nothing has been learnt yet
            raise StageError(
                f"the first checkpoint was written to {path}, and {versions()} cannot read it ({problem}), so that "
                "this training could not be resumed: see that its disk is sound, or make the environment anew with "
                f"{_TESTED_WITH}, then run the same command again"
            )

    def load_newest(self, training: Training) -> Progress:
        """Load the newest whole checkpoint that can be read; if there has never been one, change nothing.

        Raises:
            StageError: there are some, and none can be read, or one that other versions have written.
        """
        problems: dict[Path, str] = {}
        for path in reversed(self.complete()):
            try:
                progress = self._load(training, path)
            except OtherVersionsError as error:
                raise StageError(
                    f"checkpoint {int(path.name):,} was written by {error.versions}, and {versions()} cannot read it "
                    f"({error}): run the same command with the versions that wrote it, or move {path} to another place "
                    "to resume without it"
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
                f"no checkpoint in {path.parent} can be read by {versions()}; of the newest, {problem}: restore these "
                "files, or use the Python and the PyTorch that wrote them, or move that folder to another place to "
                "begin anew, then run the same command again"
            )
        training.state()  # makes that of the optimizer, by a step without a gradient, which is not to count
        for state_of_one in training.optimizer.state.values():
            state_of_one["step"].zero_()
        return Progress()

    def _load(self, training: Training, path: Path) -> Progress:
        """Load one.

        Raises:
            DamagedError: a process cannot read it; in all of them. Weights may have been changed.
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
        """Go on from the checkpoint before the newest, if there is one, and average nothing of the newest.

        For what was saved when training had gone wrong already, and nobody could see it yet. Called by every process.
        """
        *older, newest = self.complete()
        if older and self._world.is_first:
            self._places.leave_out(newest)
            self._weights.remove(newest.name)

    def take_over_moments(self, training: Training, checkpoint: Path) -> None:
        """Load Adam's moments, and the number of steps that they are of, from a checkpoint of another training.

        Rates and decays stay those of this one. Called by every process.

        Raises:
            StageError: that checkpoint cannot be read.
        """
        ours = training.state()["optimizer"]
        theirs = {"optimizer": {"state": ours["state"]}}
        try:
            self._places.read(theirs, checkpoint)
        except DamagedError as error:
            wrote = error.versions if isinstance(error, OtherVersionsError) else "the Python and the PyTorch"
            raise StageError(
                f"train.start_optimizer=kept: the checkpoint {checkpoint} cannot be read by {versions()} ({error}): "
                f"restore it, or use {wrote} that wrote it, or set train.start_optimizer to fresh"
            ) from None
        moments = theirs["optimizer"] | {"param_groups": ours["param_groups"]}
        set_optimizer_state_dict(training.parallel.model, training.optimizer, moments)

    def finish(self, update: int) -> None:
        """Keep one checkpoint, that of the last update, to go on from, now that no crash can tear it.

        Raises:
            StageError: it could not be written.
        """
        self.wait()
        if self.newest != update:
            raise StageError(
                f"the last checkpoint, of update {update:,}, could not be written to {self._folder}: free space, then "
                "run the same command again"
            )
        if self._world.is_first:
            self._remove_old(1)

    def _write_weights(self, training: Training, name: str) -> Exception | None:
        """Write the files of weights; what kept one from being written."""
        average = training.moving_average
        weights = whole_copies(training.parallel.parameters())
        averaged = whole_copies(average.tensors) if average else None
        return self._weights.write(name, weights, averaged) if self._world.is_first else None

    def _has_failed(self, path: Path, problem: BaseException | None) -> bool:
        """Whether any process has a problem with a checkpoint. If so, what there is of it goes."""
        if not self._world.any(problem is not None):
            return False
        older = [each for each in self.complete() if each != path]
        why = cause_of(problem) if problem else "another process tells why"
        message = f"checkpoint {int(path.name):,} could not be written to {self._folder} ({why})"
        if self._world.is_first:
            shutil.rmtree(path, ignore_errors=True)
            self._weights.remove(path.name)
        if not older:
            raise StageError(f"{message}, and there is none before it: free space, then run the same command again")
        self._warn(
            f"{message}: training goes on; the newest whole checkpoint is that of update {int(older[-1].name):,}"
        )
        return True

    def _remove_old(self, spare: int) -> None:
        for path in self._places.all() - set(self._places.seen()[-spare:]):
            shutil.rmtree(path, ignore_errors=True)
        self._weights.remove_old(self._scores)
