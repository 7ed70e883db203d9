"""Checkpoints hold all that training needs; the newest whole one is taken up, and old ones go."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.models.transformer import Transformer
from nmt_core.train.checkpoint import Checkpoints, Progress
from nmt_core.train.distributed import World
from nmt_core.train.optimizer import make_optimizer


class Training:
    """A model and its optimizer, moved a few steps from where they began."""

    def __init__(self, seed: int, steps: int) -> None:
        torch.manual_seed(seed)
        self.model = Transformer(ModelConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1), 20)
        self.optimizer = make_optimizer(self.model, TrainConfig())
        self.optimizer.param_groups[0]["lr"] = 0.01
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        ids = torch.arange(4, 10)[None]
        self.model.eval()(ids, ids).square().mul(torch.arange(8.0)).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.model.parameters()]


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_training_goes_on_as_if_it_had_not_stopped(tmp_path: Path, world: World) -> None:
    checkpoints, training = Checkpoints(tmp_path, keep=2), Training(seed=1, steps=3)
    progress = Progress(update=3, epoch=1, batch=2, best_dev_loss=4.5, validations_since_best=1)
    checkpoints.save(training.model, training.optimizer, progress, world)
    other = Training(seed=2, steps=0)
    assert not equal(other.weights(), training.weights())
    assert Checkpoints(tmp_path, keep=2).load_newest(other.model, other.optimizer) == progress
    assert equal(other.weights(), training.weights())
    for each in (training, other):
        each.optimizer.param_groups[0]["lr"] = 0.01
        each.step()
    assert equal(other.weights(), training.weights()), "Adam's moments and step count must come back too"
    assert other.model.source_embedding.weight is other.model.output.weight


def test_without_a_checkpoint_nothing_changes(tmp_path: Path, world: World) -> None:
    training = Training(seed=1, steps=1)
    before = training.weights()
    assert Checkpoints(tmp_path, keep=2).load_newest(training.model, training.optimizer) == Progress()
    assert equal(training.weights(), before)


def test_old_checkpoints_go(tmp_path: Path, world: World) -> None:
    checkpoints, training = Checkpoints(tmp_path, keep=3), Training(seed=1, steps=1)
    for update in range(10, 60, 10):
        checkpoints.save(training.model, training.optimizer, Progress(update=update), world)
    assert [path.name for path in checkpoints.whole()] == ["000000040", "000000050"]
    weights = sorted(file.name for file in (tmp_path / "weights").iterdir())
    assert weights == [f"0000000{update}.safetensors" for update in (30, 40, 50)]
    checkpoints.finish()
    assert [path.name for path in checkpoints.whole()] == ["000000050"]


@pytest.mark.parametrize("torn", ["without .metadata", "empty folder"])
def test_a_torn_checkpoint_is_passed_over(tmp_path: Path, world: World, torn: str) -> None:
    checkpoints, training = Checkpoints(tmp_path, keep=2), Training(seed=1, steps=1)
    checkpoints.save(training.model, training.optimizer, Progress(update=10), world)
    whole = training.weights()
    training.step()
    checkpoints.save(training.model, training.optimizer, Progress(update=20), world)
    for file in (tmp_path / "checkpoints" / "000000020").iterdir():
        if torn == "empty folder" or file.name == ".metadata":
            file.unlink()
    other = Training(seed=2, steps=0)
    assert Checkpoints(tmp_path, keep=2).load_newest(other.model, other.optimizer).update == 10
    assert equal(other.weights(), whole)
    checkpoints.save(other.model, other.optimizer, Progress(update=30), world)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir() if path.name.endswith("20")] == []
