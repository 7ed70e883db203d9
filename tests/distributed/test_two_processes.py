"""The number of processes changes the speed, never the result: two gloo processes against one, through `torchrun`."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt_core.artifacts import Artifact, Store
from nmt_core.batches.plan import Plan
from nmt_core.batches.shards import TokenShards, read_pairs
from nmt_core.config import PipelineConfig
from nmt_core.models.transformer import Transformer
from nmt_core.stage import SilentReporter
from nmt_core.train.curves import Curves
from nmt_core.train.distributed import World
from nmt_core.train.trainer import Trainer

pytestmark = pytest.mark.timeout(120)  # processes that wait for each other for ever fail here
Losses = dict[tuple[str, float], float]


class InterruptionError(Exception):
    """What the test throws into a running stage."""


class Interrupting(SilentReporter):
    """Stops training soon after the first point of the curves."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        raise InterruptionError


def losses(points: list[dict[str, float]]) -> Losses:
    return {(name, point["update"]): point[name] for point in points for name in point if name.endswith("_loss")}


def losses_of(artifact: Artifact) -> Losses:
    return losses([json.loads(line) for line in (artifact.path / "metrics.jsonl").read_text().splitlines()])


@pytest.fixture
def one_process(tiny: dict[str, Artifact], world: World, tmp_path: Path) -> Callable[[PipelineConfig], Losses]:
    """Trains in this very process, and returns the losses."""

    def train(config: PipelineConfig) -> Losses:
        folder = tiny["encode"].path
        shards, dev = TokenShards([folder / "train-00000.parquet"]), read_pairs([folder / "dev.parquet"])
        torch.manual_seed(config.train.seed)
        model = Transformer(config.model, shards.vocab_size)
        (tmp_path / "one").mkdir()
        file = tmp_path / "one" / "metrics.jsonl"
        Trainer(model, config.train, world, tmp_path / "one", Curves(file)).fit(shards, dev, lambda: False)
        return losses([json.loads(line) for line in file.read_text().splitlines()])

    return train


def test_an_update_of_one_slice_is_shared_by_two_processes(
    start_training: Any, one_process: Any, make_config: Any, tiny: dict[str, Artifact], tmp_path: Path
) -> None:
    """One of them has nothing to do then, and must still take part in the update."""
    config = make_config(
        train={"max_updates": 50, "validate_every": 25, "max_tokens": 64, "slice_tokens": 64},
        model={"dropout": 0.0},
    )
    shards = TokenShards([tiny["encode"].path / "train-00000.parquet"])
    plan = Plan(shards, "padded", slice_tokens=64, max_tokens=64, seed=config.train.seed)
    assert {len(update) for update in plan.updates(0)} == {1}
    artifact = start_training(config, Store(tmp_path), SilentReporter(), processes=2)
    assert losses_of(artifact) == pytest.approx(one_process(config), rel=1e-5)


def test_two_processes_stop_and_one_goes_on(
    start_training: Any, one_process: Any, make_config: Any, tmp_path: Path
) -> None:
    """With several passes an update."""
    config = make_config(
        train={
            "max_updates": 150,
            "checkpoint_every": 150,
            "slice_tokens": 64,
            "max_gradient_norm": 0.5,
            "learning_rate_scale": 0.2,  # keeps differences of rounding from growing over that many updates
        },
        model={"dropout": 0.0, "tied_embeddings": "none", "norm": "pre"},
    )
    store = Store(tmp_path)
    with pytest.raises(InterruptionError):
        start_training(config, store, Interrupting(), processes=2)
    checkpoint = max(store.root.glob("train/*.partial/checkpoints/*/.metadata"))
    assert 25 <= int(checkpoint.parent.name) < 150
    artifact = start_training(config, store, SilentReporter(), processes=1)
    found, expected = losses_of(artifact), one_process(config)
    assert found == pytest.approx(expected, rel=1e-4)
    early = [key for key in expected if key[1] == 25]
    assert [found[key] for key in early] == pytest.approx([expected[key] for key in early], rel=1e-5)
