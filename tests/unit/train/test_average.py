"""The `average` stage: the mean of the last checkpoints."""

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from nmt_core.artifacts import Artifact
from nmt_core.config import ModelConfig
from nmt_core.errors import StageError
from nmt_core.models.transformer import Transformer
from nmt_core.stage import Job
from nmt_core.train.average import MODEL_FILE, mean_weights, run


def make_model(seed: int) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(ModelConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1), 20)


@pytest.fixture
def trained(tmp_path: Path) -> Artifact:
    """Four checkpoints; the names are in order of updates, not of the alphabet without zeros."""
    folder = tmp_path / "train" / "weights"
    folder.mkdir(parents=True)
    for update in (50, 100, 900, 1_000):
        safetensors.torch.save_model(make_model(update), str(folder / f"{update:09d}.safetensors"))
    return Artifact("train", "0" * 32, folder.parent)


def test_the_mean_of_the_last_checkpoints(trained: Artifact, make_config: Any, tmp_path: Path, job: Job) -> None:
    report = run(make_config(average={"checkpoints": 3}), {"train": trained}, tmp_path, job)
    assert report.checkpoints == ["100", "900", "1000"]
    model = make_model(0)
    safetensors.torch.load_model(model, str(tmp_path / MODEL_FILE))
    members = [dict(make_model(update).named_parameters()) for update in (100, 900, 1_000)]
    for name, parameter in model.named_parameters():
        expected = torch.stack([member[name] for member in members]).double().mean(0).float()
        torch.testing.assert_close(parameter, expected, rtol=0, atol=1e-7)
    assert model.source_embedding.weight is model.output.weight


def test_the_mean_is_exact_where_fp32_sums_are_not(tmp_path: Path) -> None:
    files = []
    for number, value in enumerate([1e8, 1.0, -1e8]):
        files.append(tmp_path / f"{number}.safetensors")
        safetensors.torch.save_file({"weight": torch.tensor([value])}, files[-1])
    assert mean_weights(files)["weight"].item() == pytest.approx(1 / 3)


def test_too_few_checkpoints_are_told_with_the_remedy(
    trained: Artifact, make_config: Any, tmp_path: Path, job: Job
) -> None:
    config = make_config(average={"checkpoints": 5}, train={"keep_checkpoints": 5})
    with pytest.raises(
        StageError, match=r"average\.checkpoints=5: training left 4: set it lower, or lower train\.chec"
    ):
        run(config, {"train": trained}, tmp_path, job)
    assert not (tmp_path / MODEL_FILE).exists()
