"""The `average` stage: the mean of the last checkpoints' weights (Vaswani et al. 2017, section 6.1)."""

from pathlib import Path

import safetensors
import safetensors.torch
import torch

from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.stage import Inputs, Job, StageReport
from nmt_core.train.checkpoint import WEIGHTS

MODEL_FILE = "model.safetensors"


class AverageReport(StageReport):
    """What was averaged."""

    checkpoints: list[str]


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> AverageReport:
    """Average the last `average.checkpoints` checkpoints into `model.safetensors`.

    Raises:
        StageError: training left fewer checkpoints than are to be averaged.
    """
    files = sorted((inputs["train"].path / WEIGHTS).glob("*.safetensors"))
    wanted = config.average.checkpoints
    if len(files) < wanted:
        raise StageError(
            f"average.checkpoints={wanted}: training left {len(files)}: set it lower, or lower train.checkpoint_every"
        )
    chosen = files[-wanted:]
    safetensors.torch.save_file(mean_weights(chosen), out / MODEL_FILE, metadata=_metadata(chosen[0]))
    job.reporter.progress(wanted, wanted, "checkpoints")
    return AverageReport(
        items_in=wanted, items_out=1, unit="checkpoints", checkpoints=[str(int(file.stem)) for file in chosen]
    )


def mean_weights(files: list[Path]) -> dict[str, torch.Tensor]:
    """Mean of the tensors of each name, summed in fp64."""
    total: dict[str, torch.Tensor] = {}
    for file in files:
        for name, tensor in safetensors.torch.load_file(file).items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(files)).float() for name, tensor in total.items()}


def _metadata(file: Path) -> dict[str, str]:
    """Names of the tied matrices that safetensors stores once; loading needs them."""
    with safetensors.safe_open(file, "pt") as reader:
        return dict(reader.metadata() or {})
