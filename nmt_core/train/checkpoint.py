"""Checkpoints: all that training needs to go on, and the weights alone for averaging.

Layout below the folder of a training run::

    checkpoints/<update>/           weights, optimizer and progress, by torch.distributed.checkpoint; `.metadata` is
                                    written last and marks a whole one
    weights/<update>.safetensors    the weights

A checkpoint loads into any number of processes.
"""

import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.optim import Optimizer

from nmt_core.train.distributed import World

WEIGHTS = "weights"
_CHECKPOINTS = "checkpoints"
_KEPT_FOR_RESUME = 2  # the newest may be torn by a crash of the disk; the one before is the spare


@dataclass
class Progress:
    """How far training is; with the configuration, the whole state of the data and of the random numbers."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch that are done."""
    best_dev_loss: float = float("inf")
    validations_since_best: int = 0
    window: list[float] = field(default_factory=lambda: [0.0] * 4)
    """Sums since the last point of the curves: a resumed run draws the point that an undisturbed one draws."""


class Checkpoints:
    """The checkpoints of one training run."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._keep = keep

    def whole(self) -> list[Path]:
        """Whole checkpoints, oldest first."""
        return sorted(file.parent for file in (self._folder / _CHECKPOINTS).glob("*/.metadata"))

    def save(self, model: nn.Module, optimizer: Optimizer, progress: Progress, world: World) -> None:
        """Save all, and remove what is too old. Called by every process."""
        path = self._folder / _CHECKPOINTS / f"{progress.update:09d}"
        weights, moments = get_state_dict(model, optimizer)
        save({"model": weights, "optimizer": moments, "progress": asdict(progress)}, checkpoint_id=path)
        if world.is_first:
            file = self._folder / WEIGHTS / f"{path.name}.safetensors"
            file.parent.mkdir(exist_ok=True)
            temporary = file.with_suffix(".tmp")
            safetensors.torch.save_model(model, str(temporary))
            temporary.rename(file)
            self._remove_old(_KEPT_FOR_RESUME)
        dist.barrier()

    def load_newest(self, model: nn.Module, optimizer: Optimizer) -> Progress:
        """Load the newest whole checkpoint into model and optimizer; without one, change nothing."""
        whole = self.whole()
        if not whole:
            return Progress()
        weights, moments = get_state_dict(model, optimizer)
        state: dict[str, Any] = {"model": weights, "optimizer": moments, "progress": asdict(Progress())}
        load(state, checkpoint_id=whole[-1])
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        return Progress(**state["progress"])

    def finish(self) -> None:
        """Keep one checkpoint to go on from, now that no crash can tear it."""
        self._remove_old(1)

    def _remove_old(self, spare: int) -> None:
        whole = self.whole()
        for path in set((self._folder / _CHECKPOINTS).iterdir()) - set(whole[-spare:]):
            shutil.rmtree(path)
        for file in sorted((self._folder / WEIGHTS).glob("*.safetensors"))[: -self._keep]:
            file.unlink()
