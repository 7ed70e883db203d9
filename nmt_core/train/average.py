"""Stage `average`: average the weights of several checkpoints (Vaswani et al. 2017, section 6.1).

The average and every checkpoint that training kept are scored on the dev set. The stage writes the weights with the
lowest loss. For an ensemble, it also keeps the weights of each member.
"""

import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel

from nmt_core.batches.collate import pad
from nmt_core.batches.plan import Capacity, pad_micro_batches
from nmt_core.batches.shards import DEV_FILE, TokenShards
from nmt_core.config import AverageConfig, ModelConfig, PipelineConfig
from nmt_core.errors import StageError, counted
from nmt_core.models.build import build_model
from nmt_core.models.ensemble import log_mean
from nmt_core.stages.stage import Inputs, Job, Reporter, StageReport
from nmt_core.tokenizer.tokenizer import PAD_ID
from nmt_core.train.distributed import World
from nmt_core.train.validate import dev_loss
from nmt_core.train.weights import MEMBERS, MODEL_FILE, WEIGHTS

_SLICE_TOKENS = 2_048  # dev set tokens in one pass: their number does not change the loss


class KeptCheckpoint(BaseModel):
    """Checkpoint whose weights training kept, with its dev loss."""

    update: int
    dev_loss: float


class AverageReport(StageReport):
    """Report of `average`: the averaged checkpoints and their dev losses, unsmoothed, in nats per target token."""

    strategy: str
    checkpoints: list[str]
    """Updates of the averaged checkpoints. For a moving average, its last update."""
    taken: Literal["averaged", "single"]
    """Weights that the stage wrote: the average, or the best single checkpoint."""
    averaged_dev_loss: float
    best_single: int
    """Update of the checkpoint with the lowest dev loss."""
    best_single_dev_loss: float
    kept: list[KeptCheckpoint]
    members: tuple[str, ...] = ()
    """Updates of the checkpoints that are exported as an ensemble. Empty without an ensemble."""
    ensemble_dev_loss: float | None = None
    """Dev loss of the mean of the members' probabilities. None without an ensemble."""


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> AverageReport:
    """Average checkpoints by `average.strategy`, and write the average or the best checkpoint, by dev loss.

    Raises:
        StageError: training left too few checkpoints or no moving average, or no dev loss is finite.
    """
    folder, average = inputs["train"].path / WEIGHTS, out / MODEL_FILE
    kept = sorted(file for file in folder.glob("*.safetensors") if file.stem.isdigit())
    moving = sorted(folder.glob("*.ema.safetensors"))
    _require_enough(config.average, len(kept), len(moving))
    with _threads(job.resources.threads):
        dev = _DevSet(inputs["encode"].path / DEV_FILE, config.model)
        losses = {}
        for done, file in enumerate(kept, start=1):
            losses[file] = dev.loss_of(file)
            job.reporter.progress(done, len(kept) + 1, f"dev loss {losses[file]:.4f} after update {_update(file):,}")
        chosen = (
            moving[-1:]
            if config.average.strategy == "ema"
            else choose(config.average.strategy, config.average.checkpoints, losses)
        )
        safetensors.torch.save_file(mean_weights(chosen), average, _metadata(chosen[0]))
        averaged_loss = dev.loss_of(average)
        members = choose(config.average.strategy, config.average.ensemble, losses)
        ensemble_loss = _keep_members(members, out / MEMBERS, dev, job.reporter) if members else None
    best = min(kept, key=losses.__getitem__)
    if not math.isfinite(min(averaged_loss, losses[best])):
        raise StageError(
            "average: no checkpoint has a finite dev loss: lower train.learning_rate_scale, then train again"
        )
    is_better = averaged_loss <= losses[best]
    if not is_better:
        shutil.copyfile(best, average)
    job.reporter.progress(len(kept) + 1, len(kept) + 1, f"dev loss {averaged_loss:.4f} averaged")
    job.reporter.log(
        f"dev loss {averaged_loss:.4f} averaged, {losses[best]:.4f} of update {_update(best):,} alone: the "
        f"{'average' if is_better else 'checkpoint'} is used"
    )
    return AverageReport(
        items_in=len(kept),
        items_out=1,
        unit="checkpoints",
        strategy=config.average.strategy,
        checkpoints=[str(_update(file)) for file in chosen],
        taken="averaged" if is_better else "single",
        averaged_dev_loss=averaged_loss,
        best_single=_update(best),
        best_single_dev_loss=losses[best],
        kept=[KeptCheckpoint(update=_update(file), dev_loss=loss) for file, loss in losses.items()],
        members=tuple(str(_update(file)) for file in members),
        ensemble_dev_loss=ensemble_loss,
    )


def choose(strategy: str, count: int, losses: Mapping[Path, float]) -> list[Path]:
    """Return some checkpoints, oldest first.

    Args:
        strategy: `last`, or `best` for the lowest dev losses.
        count: number of checkpoints.
        losses: dev loss of each checkpoint, oldest first.
    """
    ranked = list(losses) if strategy != "best" else sorted(losses, key=losses.__getitem__, reverse=True)
    return sorted(ranked[len(ranked) - count :])


def _keep_members(files: list[Path], folder: Path, dev: "_DevSet", reporter: Reporter) -> float:
    """Copy the weights of each member of an ensemble, and return the ensemble's dev loss."""
    folder.mkdir()
    for file in files:
        shutil.copyfile(file, folder / file.name)
    log_probs = [dev.log_probs_of(file) for file in files]
    loss = -float(log_mean(log_probs).double().mean())
    reporter.log(f"dev loss {loss:.4f} of the ensemble of {counted(len(files), 'checkpoint')}")
    return loss


def mean_weights(files: list[Path]) -> dict[str, torch.Tensor]:
    """Return the mean of the tensors of each name, summed in fp64.

    One tensor of each file is in memory at a time.
    """
    with ExitStack() as stack:
        readers = [stack.enter_context(safetensors.safe_open(file, "pt")) for file in files]
        mean = {}
        for name in readers[0].keys():  # noqa: SIM118 - a reader is not a mapping
            total = sum((reader.get_tensor(name).double() for reader in readers), torch.zeros((), dtype=torch.float64))
            mean[name] = (total / len(readers)).float()
        return mean


class _DevSet:
    """Dev set, and a model that loads one file of weights after another, on the GPU if there is one."""

    def __init__(self, file: Path, config: ModelConfig) -> None:
        shards = TokenShards([file])
        self._pairs = shards.read(range(len(shards.groups)))
        self._world = World(0, 1, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        model = build_model(config, shards.vocab_size, source_vocab_size=shards.source_vocab_size)
        self._model = model.to(self._world.device)

    def loss_of(self, weights: Path) -> float:
        """Return the mean unsmoothed loss in nats per target token. NaN becomes infinity, so that losses compare."""
        safetensors.torch.load_model(self._model, weights)
        loss = dev_loss(self._model, self._pairs, _SLICE_TOKENS, self._world)
        return math.inf if math.isnan(loss) else loss

    @torch.inference_mode()
    def log_probs_of(self, weights: Path) -> torch.Tensor:
        """Return the log-probability of each target token in nats, fp32 on the CPU, in the same order for all files."""
        safetensors.torch.load_model(self._model, weights)
        self._model.eval()
        tokens = max(_SLICE_TOKENS, int(self._pairs.lengths.max()))
        found = []
        for rows in pad_micro_batches(self._pairs.lengths, Capacity(tokens, tokens), np.random.default_rng(0)):
            batch = pad(self._pairs, rows).to(self._world.device)
            is_token = batch.target != PAD_ID
            states_NM = self._model(batch.source, batch.decoder_input)[is_token]
            log_probs_NV = self._model.output(states_NM).float().log_softmax(-1)
            found.append(log_probs_NV.gather(1, batch.target[is_token][:, None]).squeeze(1).cpu())
        return torch.cat(found)


def _require_enough(config: AverageConfig, kept: int, moving: int) -> None:
    if config.strategy == "ema":
        if not moving:
            raise StageError(
                "average.strategy=ema: training left no moving average: set train.ema_decay, such as 0.999"
            )
        return
    for name, count in (("checkpoints", config.checkpoints), ("ensemble", config.ensemble)):
        if kept < count:
            raise StageError(
                f"average.{name}={count}: training left {kept}: set it lower, or lower train.checkpoint_every"
            )


def _metadata(file: Path) -> dict[str, str] | None:
    """Return the metadata of a file of weights."""
    with safetensors.safe_open(file, "pt") as reader:
        metadata: dict[str, str] | None = reader.metadata()
        return metadata


def _update(file: Path) -> int:
    """Return the update after which the weights were written."""
    return int(file.name.partition(".")[0])


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let PyTorch use this many threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
