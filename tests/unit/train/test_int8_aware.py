"""Int8-aware training: passes see the rounded weights, and the weights that are trained and stored stay exact."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nmt_core.batches.collate import pad
from nmt_core.batches.shards import DEV_FILE, TokenShards, read_pairs
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.models.integers import quantized
from nmt_core.models.transformer import Transformer
from nmt_core.recipes.recipe import with_changes
from nmt_core.store.artifacts import Artifact
from nmt_core.train.distributed import World
from nmt_core.train.int8_aware import Int8Weights
from nmt_core.train.parallel import Objective
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet, dev_loss

Weights = dict[str, torch.Tensor]
NOT_TIED = "model.tied_embeddings=none"
TRAIN = {"max_updates": 12, "validate_every": 12, "checkpoint_every": 6, "max_tokens": 1_024, "micro_batch_tokens": 512}


class Listener:
    """Listener that keeps the last point of the training loss."""

    train_loss = 0.0

    def point(self, values: Any) -> None:
        self.train_loss = values.get("train_loss", self.train_loss)

    def say(self, message: str) -> None: ...
    def go_back(self, update: int) -> None: ...


@pytest.fixture(scope="module")
def pairs(tiny: dict[str, Artifact]) -> tuple[TokenShards, DevSet]:
    folder = tiny["encode"].path
    return TokenShards(sorted(folder.glob("train-*.parquet"))), DevSet(read_pairs([folder / DEV_FILE]))


@pytest.fixture(scope="module")
def config(make_config: Any) -> Callable[..., PipelineConfig]:
    return lambda **train: make_config(model={"dropout": 0.1}, train=TRAIN | train)


@pytest.fixture(scope="module")
def train(pairs: Any, world: World) -> Callable[..., tuple[Transformer, float]]:
    def run(folder: Path, config: PipelineConfig, stop_at: int = 0) -> tuple[Transformer, float]:
        folder.mkdir(exist_ok=True)
        torch.manual_seed(config.train.seed)
        model, listener = Transformer(config.model, pairs[0].vocab_size), Listener()
        trainer = Trainer(model, config.train, world, folder, listener)
        trainer.fit(*pairs, lambda: bool(stop_at) and trainer.progress.update == stop_at - 1)
        return model.eval(), listener.train_loss

    return run


def copied(model: Transformer) -> Weights:
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def are_equal(one: Weights, other: Weights) -> bool:
    return all(torch.equal(weight, other[name]) for name, weight in one.items())


@pytest.mark.parametrize("tied", ["three_way", "none"])
def test_weights_are_rounded_as_the_int8_export_rounds_them_and_restored_exactly(make_config: Any, tied: str) -> None:
    torch.manual_seed(3)
    model = Transformer(make_config(model={"tied_embeddings": tied}).model, 61)
    exact, expected = copied(model), quantized(model)
    addresses = {name: weight.data_ptr() for name, weight in model.named_parameters()}
    with Int8Weights(model).in_place():
        rounded = copied(model)
        assert addresses == {name: weight.data_ptr() for name, weight in model.named_parameters()}
    for name, before in exact.items():
        layer = (name.removesuffix(".weight"),)
        if layer in expected:
            integers, scale = expected[layer]
            torch.testing.assert_close(rounded[name], integers * scale[:, None], rtol=0, atol=0)
            assert not torch.equal(rounded[name], before)
        else:
            assert torch.equal(rounded[name], before), f"{name} is in fp32 in int8 graphs"
    assert are_equal(copied(model), exact)


def test_the_weights_are_exact_again_after_an_error(make_config: Any) -> None:
    model = Transformer(make_config().model, 61)
    exact = copied(model)
    with pytest.raises(ZeroDivisionError), Int8Weights(model).in_place():
        raise ZeroDivisionError
    assert are_equal(copied(model), exact)


def test_the_gradient_at_the_rounded_weights_is_left_for_the_exact_ones(make_config: Any, pairs: Any) -> None:
    """The straight-through estimator: the derivative of the rounding is taken to be 1."""
    torch.manual_seed(3)
    model = Transformer(make_config(model={"dropout": 0.0}).model, pairs[0].vocab_size)
    exact, twin, batch = copied(model), copy.deepcopy(model), pad(pairs[0].read([0]), np.arange(8))
    with Int8Weights(model).in_place():
        Objective(model, 0.1, torch.float32)(batch)[0].backward()
        twin.load_state_dict(model.state_dict())
    Objective(twin, 0.1, torch.float32)(batch)[0].backward()
    for (name, weight), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert weight.grad is not None and torch.equal(weight.grad, other.grad), name
    assert are_equal(copied(model), exact)


def test_the_passes_of_a_training_see_the_rounded_weights(
    train: Callable[..., tuple[Transformer, float]], config: Callable[..., PipelineConfig], tmp_path: Path
) -> None:
    alone = {"max_updates": 1, "validate_every": 1, "checkpoint_every": 1}
    (aware, at_rounded), (_, at_exact) = (
        train(tmp_path / str(first), config(**alone, int8_aware_from=first)) for first in (1, 0)
    )
    assert at_rounded == pytest.approx(at_exact, rel=0.05) and at_rounded != pytest.approx(at_exact, rel=1e-6)
    with Int8Weights(aware).in_place():
        rounded = copied(aware)
    assert not are_equal(rounded, aware.state_dict()), "what is stored is not rounded"


def test_updates_before_the_first_one_are_as_without_it(
    train: Callable[..., tuple[Transformer, float]], config: Callable[..., PipelineConfig], tmp_path: Path
) -> None:
    plain, _ = train(tmp_path / "plain", config(), stop_at=6)
    before, _ = train(tmp_path / "before", config(int8_aware_from=7), stop_at=6)
    assert are_equal(before.state_dict(), plain.state_dict())
    after, _ = train(tmp_path / "before", config(int8_aware_from=7), stop_at=7)
    still_plain, _ = train(tmp_path / "plain", config(), stop_at=7)
    assert not are_equal(after.state_dict(), still_plain.state_dict())


def test_a_stopped_training_resumes_to_the_same_weights(
    train: Callable[..., tuple[Transformer, float]], config: Callable[..., PipelineConfig], tmp_path: Path
) -> None:
    whole, _ = train(tmp_path / "whole", config(int8_aware_from=4))
    train(tmp_path / "stopped", config(int8_aware_from=4), stop_at=8)
    resumed, _ = train(tmp_path / "stopped", config(int8_aware_from=4))
    assert are_equal(whole.state_dict(), resumed.state_dict())


@pytest.mark.slow
@pytest.mark.cpu(20)
def test_rounding_costs_less_after_it(
    train: Callable[..., tuple[Transformer, float]],
    config: Callable[..., PipelineConfig],
    pairs: tuple[TokenShards, DevSet],
    world: World,
    tmp_path: Path,
) -> None:
    costs = {}
    for first in (0, 41):
        options = {"max_updates": 120, "validate_every": 120, "checkpoint_every": 120, "int8_aware_from": first}
        model, _ = train(tmp_path / str(first), config(**options))
        exact = dev_loss(model, pairs[1].pairs, 512, world)
        with Int8Weights(model).in_place():
            costs[first] = dev_loss(model, pairs[1].pairs, 512, world) - exact
    assert costs[41] < costs[0]


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        (["train.int8_aware_from=13"], "after the last update, max_updates=12"),
        (
            ["train.int8_aware_from=3", "model.architecture=rnn", "model.decoder_layers=1", NOT_TIED],
            "set model.architecture to transformer",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(
    config: Callable[..., PipelineConfig], changes: list[str], remedy: str
) -> None:
    with pytest.raises(ConfigError, match=remedy):
        with_changes(config(), ",".join(changes))
