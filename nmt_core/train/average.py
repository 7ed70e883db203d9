"""The `average` stage: the mean of some checkpoints' weights (Vaswani et al. 2017, section 6.1), if it is any better.

The average and every checkpoint that training kept are scored on the dev set; what has the lowest loss goes on.
"""

import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel

from nmt_core.batches.shards import DEV_FILE, TokenShards
from nmt_core.config import AverageConfig, ModelConfig, PipelineConfig
from nmt_core.errors import StageError
from nmt_core.models.build import build_model
from nmt_core.stages.stage import Inputs, Job, StageReport
from nmt_core.train.distributed import World
from nmt_core.train.validate import dev_loss
from nmt_core.train.weights import MODEL_FILE, WEIGHTS

_SLICE_TOKENS = 2_048  # of the dev set, computed together: any other number gives the same loss


class KeptCheckpoint(BaseModel):
    """A checkpoint whose weights training kept."""

    update: int
    dev_loss: float


class AverageReport(StageReport):
    """What was averaged, and whether that was of use. Losses are plain, in nats per target token."""

    strategy: str
    checkpoints: list[str]
    """Updates of what was averaged; of a moving average, its last."""
    taken: Literal["averaged", "single"]
    """What goes on: the average, or the best checkpoint alone."""
    averaged_dev_loss: float
    best_single: int
    """Update of the checkpoint with the lowest dev loss."""
    best_single_dev_loss: float
    kept: list[KeptCheckpoint]


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> AverageReport:
    """Average checkpoints as `average.strategy` says, and write the average or the best of them, by their dev loss.

    Raises:
        StageError: training left too few checkpoints, or no moving average, or none of all has a finite dev loss.
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
        chosen = moving[-1:] if config.average.strategy == "ema" else choose(config.average, losses)
        safetensors.torch.save_file(mean_weights(chosen), average, _metadata(chosen[0]))
        averaged_loss = dev.loss_of(average)
    best = min(kept, key=losses.__getitem__)
    if not math.isfinite(min(averaged_loss, losses[best])):
        raise StageError(
            "average: no checkpoint has a finite dev loss: lower train.learning_rate_scale and train again"
        )
    is_better = averaged_loss <= losses[best]
    if not is_better:
        shutil.copyfile(best, average)
    job.reporter.progress(len(kept) + 1, len(kept) + 1, f"dev loss {averaged_loss:.4f} averaged")
    job.reporter.log(
        f"dev loss {averaged_loss:.4f} averaged, {losses[best]:.4f} of update {_update(best):,} alone: the "
        f"{'average' if is_better else 'checkpoint'} goes on"
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
    )


def choose(config: AverageConfig, losses: Mapping[Path, float]) -> list[Path]:
    """Which to average of some checkpoints, given oldest first with their dev losses; oldest first as well."""
    ranked = list(losses) if config.strategy == "last" else sorted(losses, key=losses.__getitem__, reverse=True)
    return sorted(ranked[-config.checkpoints :])


def mean_weights(files: list[Path]) -> dict[str, torch.Tensor]:
    """Mean of the tensors of each name, summed in fp64. One tensor of each file is in memory at a time."""
    with ExitStack() as stack:
        readers = [stack.enter_context(safetensors.safe_open(file, "pt")) for file in files]
        mean = {}
        for name in readers[0].keys():  # noqa: SIM118 - a reader is no mapping
            total = sum((reader.get_tensor(name).double() for reader in readers), torch.zeros((), dtype=torch.float64))
            mean[name] = (total / len(readers)).float()
        return mean


class _DevSet:
    """The dev set, and a model that takes on one file of weights after another, on the GPU if there is one."""

    def __init__(self, file: Path, config: ModelConfig) -> None:
        shards = TokenShards([file])
        self._pairs = shards.read(range(len(shards.groups)))
        self._world = World(0, 1, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        model = build_model(config, shards.vocab_size, source_vocab_size=shards.source_vocab_size)
        self._model = model.to(self._world.device)

    def loss_of(self, weights: Path) -> float:
        """Mean plain loss in nats per target token; infinite if it is no number, so that it can be compared."""
        safetensors.torch.load_model(self._model, weights)
        loss = dev_loss(self._model, self._pairs, _SLICE_TOKENS, self._world)
        return math.inf if math.isnan(loss) else loss


def _require_enough(config: AverageConfig, kept: int, moving: int) -> None:
    if config.strategy == "ema":
        if not moving:
            raise StageError("average.strategy=ema: training left no moving average: set train.ema_decay, as to 0.999")
    elif kept < config.checkpoints:
        raise StageError(
            f"average.checkpoints={config.checkpoints}: training left {kept}: set it lower, or lower "
            "train.checkpoint_every"
        )


def _metadata(file: Path) -> dict[str, str] | None:
    """What a file of weights says of itself."""
    with safetensors.safe_open(file, "pt") as reader:
        metadata: dict[str, str] | None = reader.metadata()
        return metadata


def _update(file: Path) -> int:
    """After which the weights were written."""
    return int(file.name.partition(".")[0])


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """PyTorch uses so many."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
