"""Recurrent models in the same trainer: they learn, and a run that was stopped resumes as if it had not been."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import safetensors.torch
import torch

from nmt_core.batches.shards import ShardWriter, SideTokens, TokenPairs, TokenShards, read_pairs
from nmt_core.models.build import build_model
from nmt_core.tokenizer.tokenizer import EOS_ID
from nmt_core.train.distributed import World
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet, dev_loss

SMALL = {"architecture": "rnn", "d_model": 24, "encoder_layers": 1, "decoder_layers": 1, "tied_embeddings": "none"}
WIDTHS = {"hidden_size": 24, "alignment_size": 24, "maxout_size": 24}
DEEP = {"encoder_layers": 2, "decoder_layers": 2}
KINDS: dict[str, dict[str, Any]] = {
    "encoder-decoder": {"rnn": {"attention": "none", "bidirectional": False}},
    "first_state": DEEP
    | {"rnn": {"attention": "none", "context": "first_state", "cell": "lstm", "bidirectional": False}},
    "search": {},
    "dot": DEEP | {"rnn": {"attention": "dot", "cell": "lstm", "bidirectional": False}},
}
QUICK = {"learning_rate_schedule": "constant", "learning_rate_scale": 0.03, "max_gradient_norm": 1.0}
WORDS = 20
"""Number of words of each of two languages that are made up."""
ADADELTA = {"optimizer": "adadelta", "learning_rate_schedule": "constant", "max_gradient_norm": 1.0}


class Remembering:
    def __init__(self) -> None:
        self.points: list[dict[str, float]] = []

    def point(self, values: Mapping[str, float]) -> None:
        self.points.append(dict(values))

    def say(self, message: str) -> None: ...

    def go_back(self, update: int) -> None: ...


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[TokenShards, DevSet]:
    """Sentences of one word, repeated up to three times, with one translation."""
    folder, draw, ids = tmp_path_factory.mktemp("made-up"), np.random.default_rng(1), pa.list_(pa.uint16())
    for name, count in (("train", 960), ("dev", 60)):
        words = [np.full(1 + number % 3, 4 + draw.integers(WORDS)) for number in range(count)]
        sides = [pa.array([[*row + add, EOS_ID] for row in words], ids) for add in (0, WORDS)]
        with ShardWriter(folder / name, [pa.uint16()] * 2, {"vocab_size": str(4 + 2 * WORDS)}) as writer:
            writer.write(sides, pa.array(["made up"] * count), pa.array(range(count)))
    return TokenShards([folder / "train"]), DevSet(read_pairs([folder / "dev"]))


@pytest.fixture
def train(pairs: tuple[TokenShards, DevSet], world: World, make_config: Any, tmp_path: Path) -> Any:
    """Train one kind in a folder of the test, perhaps up to a stop, and return the points of the curves."""

    def run(
        kind: str, folder: str = "run", stop_at: int = 0, dropout: float = 0.0, **options: Any
    ) -> list[dict[str, float]]:
        values = SMALL | KINDS[kind]
        config = make_config(model=values | {"rnn": WIDTHS | values.get("rnn", {}), "dropout": dropout}, train=options)
        (tmp_path / folder).mkdir(exist_ok=True)
        torch.manual_seed(config.train.seed)
        model, listener = build_model(config.model, pairs[0].vocab_size), Remembering()
        trainer = Trainer(model, config.train, world, tmp_path / folder, listener)
        trainer.fit(*pairs, lambda: bool(stop_at) and trainer.progress.update == stop_at - 1)
        return listener.points

    return run


def dev_losses(points: list[dict[str, float]]) -> list[float]:
    return [point["dev_loss"] for point in points if "dev_loss" in point]


@pytest.mark.parametrize("kind", KINDS)
def test_they_learn_to_read_the_source(
    train: Any, kind: str, pairs: tuple[TokenShards, DevSet], world: World, tmp_path: Path, make_config: Any
) -> None:
    train(kind, max_updates=140, validate_every=140, checkpoint_every=140, micro_batch_tokens=512, **QUICK)
    values = SMALL | KINDS[kind]
    config = make_config(model=values | {"rnn": WIDTHS | values.get("rnn", {})})
    model = build_model(config.model, pairs[0].vocab_size)
    safetensors.torch.load_model(model, tmp_path / "run/weights/000000140.safetensors")
    dev = pairs[1].pairs
    starts, lengths = (np.roll(each, 1) for each in (dev.source.starts, dev.source.lengths))
    with_others = TokenPairs(SideTokens(dev.source.ids, starts, lengths), dev.target)
    loss, loss_with_others = (dev_loss(model, each, 1_024, world) for each in (dev, with_others))
    assert loss < 1.5, "it began at log(44 pieces) = 3.8"
    assert loss < loss_with_others - 0.5, "a model that ignores the source has the same loss with another source"


def test_adadelta_needs_no_rate_to_be_chosen(train: Any) -> None:
    points = train("search", max_updates=120, validate_every=30, checkpoint_every=120, **ADADELTA)
    found = dev_losses(points)
    assert found == sorted(found, reverse=True)
    assert found[-1] < 3
    assert {point["learning_rate"] for point in points if "learning_rate" in point} == {1.0}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), [("search", ADADELTA), ("dot", QUICK)])
def test_a_stopped_run_resumes_with_the_same_weights(
    train: Any, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    options = options | {"max_updates": 20, "validate_every": 10, "checkpoint_every": 10, "dropout": 0.2}
    train(kind, "undisturbed", **options)
    train(kind, "stopped", stop_at=13, **options)
    train(kind, "stopped", **options)
    names = [tmp_path / folder / "weights/000000020.safetensors" for folder in ("undisturbed", "stopped")]
    expected, found = (safetensors.torch.load_file(name) for name in names)
    assert expected.keys() == found.keys()
    for name, weight in expected.items():
        assert torch.equal(found[name], weight), name


def test_activations_that_are_computed_twice_change_nothing(train: Any, tmp_path: Path) -> None:
    options = {"max_updates": 10, "validate_every": 10, "checkpoint_every": 10, **QUICK}
    plain = train("search", "plain", **options)
    twice = train("search", "twice", activation_checkpointing=True, **options)
    assert dev_losses(twice) == pytest.approx(dev_losses(plain), rel=1e-6)
