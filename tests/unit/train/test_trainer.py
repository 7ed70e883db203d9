"""The training loop learns, stops when it should, and computes the same however its batches are cut."""

import json
import math
import resource
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch

from nmt_core.batches.shards import ShardWriter, TokenShards, read_pairs
from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.models.transformer import Transformer
from nmt_core.store.artifacts import Artifact
from nmt_core.train.distributed import World
from nmt_core.train.outcome import UPDATES_LATE
from nmt_core.train.progress import Progress
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet
from nmt_core.train.watchdog import INCIDENTS, updates_passed_by

Points = list[dict[str, float]]


class Run(NamedTuple):
    """Trained model, and its progress."""

    model: Transformer
    progress: Progress


class Remembering:
    """Listener that keeps its messages."""

    def __init__(self) -> None:
        self.points: Points = []
        self.said: list[str] = []

    def point(self, values: Mapping[str, float]) -> None:
        self.points.append(dict(values))

    def say(self, message: str) -> None:
        self.said.append(message)

    def go_back(self, update: int) -> None:
        self.points = [point for point in self.points if point["update"] <= update]


SHORT = {"max_updates": 50, "validate_every": 25, "checkpoint_every": 25}


@pytest.fixture(scope="module")
def pairs(tiny: dict[str, Artifact]) -> tuple[TokenShards, DevSet]:
    """Training and dev pairs."""
    folder = tiny["encode"].path
    return TokenShards([folder / "train-00000.parquet"]), DevSet(read_pairs([folder / "dev.parquet"]))


@pytest.fixture(scope="module")
def train_in(pairs: tuple[TokenShards, DevSet], world: World) -> Callable[..., tuple[Run, Points]]:
    """Train by a configuration in a folder, and return the outcome and the points of the curves."""

    def train(folder: Path, config: PipelineConfig, stop_at: int = 0) -> tuple[Run, Points]:
        folder.mkdir(exist_ok=True)
        torch.manual_seed(config.train.seed)
        model = Transformer(config.model, pairs[0].vocab_size)
        listener = Remembering()
        trainer = Trainer(model, config.train, world, folder, listener)
        finished = trainer.fit(*pairs, lambda: bool(stop_at) and trainer.progress.update == stop_at - 1)
        assert finished is not bool(stop_at)
        return Run(model, trainer.progress), listener.points

    return train


@pytest.fixture
def train(train_in: Any, tmp_path: Path) -> Any:
    """Train in a folder of the test."""

    def train(config: PipelineConfig, folder: str = "run", stop_at: int = 0) -> tuple[Run, Points]:
        return train_in(tmp_path / folder, config, stop_at)

    return train


@pytest.fixture(scope="module")
def undisturbed(train_in: Any, make_config: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Points]:
    """Folder and curve of the training `SHORT`, which no test changes."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, train_in(folder, make_config(train=SHORT))[1]


def losses(points: Points) -> dict[float, float]:
    return {point["update"]: point["train_loss"] for point in points if "train_loss" in point}


def weights(folder: Path, update: int) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(folder / "weights" / f"{update:09d}.safetensors")


def test_packed_passes_of_any_size_make_the_same_update(train: Any, make_config: Any, tmp_path: Path) -> None:
    found = {}
    # With Adam's usual epsilon a gradient that is nothing but rounding makes a step as long as any other.
    packed = SHORT | {"batching": "packed", "adam_epsilon": 1e-4}
    for size in (512, 256):
        config = make_config(train=packed | {"max_tokens_per_pass": size}, model={"dropout": 0.0})
        _, points = train(config, folder=f"{size}")
        found[size] = losses(points), weights(tmp_path / f"{size}", 50)
    assert found[256][0] == pytest.approx(found[512][0], rel=1e-6)
    for name, tensor in found[512][1].items():
        torch.testing.assert_close(found[256][1][name], tensor, rtol=1e-3, atol=1e-4)


def test_a_stop_that_finds_no_room_reports_from_where_another_run_resumes(
    pairs: tuple[TokenShards, DevSet], make_config: Any, world: World, tmp_path: Path
) -> None:
    config = make_config(train=SHORT)
    trainer = Trainer(Transformer(config.model, pairs[0].vocab_size), config.train, world, tmp_path, Remembering())
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / f"{30:09d}").write_text("in the place of a folder")
    assert not trainer.fit(*pairs, lambda: trainer.progress.update == 29)
    assert (trainer.progress.update, trainer.saved_update) == (30, 25)


@pytest.fixture(params=[0, 1], ids=["at once", "an update late"])
def lateness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes of updates are read at once as on a CPU, or later as on a GPU."""
    monkeypatch.setitem(UPDATES_LATE, "cpu", request.param)


@pytest.mark.usefixtures("lateness")
@pytest.mark.parametrize("stop_at", [25, 33])
def test_a_stopped_run_resumes_with_the_same_curve_to_the_same_weights(
    train: Any, make_config: Any, tmp_path: Path, undisturbed: tuple[Path, Points], stop_at: int
) -> None:
    """Training may be stopped anywhere: between two points of the curve as well as at one."""
    config, (folder, expected) = make_config(train=SHORT), undisturbed
    _, before = train(config, stop_at=stop_at)
    _, after = train(config)
    assert losses(before) | losses(after) == losses(expected)
    dev = [[point["dev_loss"] for point in points if "dev_loss" in point] for points in (expected, before + after)]
    assert dev[0] == dev[1]
    for name, tensor in weights(folder, 50).items():
        assert torch.equal(weights(tmp_path / "run", 50)[name], tensor), name


def test_a_finished_run_ends_at_once(
    train: Any, make_config: Any, tmp_path: Path, undisturbed: tuple[Path, Points]
) -> None:
    shutil.copytree(undisturbed[0], tmp_path / "run")
    run, points = train(make_config(train=SHORT))
    assert run.progress.update == 50
    assert points == []


def test_patience_ends_training(train: Any, make_config: Any) -> None:
    """With steps too small to change a weight the dev loss stays, so that the first validation is the best.

    The stage's report is made from the last point of the curve, which belongs to the last update.
    """
    still = {"learning_rate_scale": 1e-30, "patience": 2, "validate_every": 10, "max_updates": 500}
    run, points = train(make_config(train=still))
    assert [point["update"] for point in points if "dev_loss" in point] == [10, 20, 30]
    assert run.progress.update == 30
    assert max(losses(points), default=None) == 30


def test_divergence_is_told_with_what_to_change(train: Any, make_config: Any, tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"is (nan|inf) at update \d+ .*has diverged, and has gone back 2") as caught:
        train(make_config(train=SHORT | {"learning_rate_scale": 1e38, "max_rollbacks": 2}))
    assert "train.learning_rate_scale=1e+38" in str(caught.value)
    assert "train.warmup_updates=50" in str(caught.value)
    incidents = [json.loads(line) for line in (tmp_path / "run" / INCIDENTS).read_text().splitlines()]
    assert len(incidents) == 3
    assert incidents[-1]["pairs"][0] in str(caught.value)
    assert [incident["back_to"] for incident in incidents] == [0, 0, None]
    numbers = [incident["number"] for incident in incidents]
    assert numbers == sorted(set(numbers)), "the data that led there is not gone through again"


POISON = 600  # one piece more than the vocabulary has: no sentence of the tiny corpus holds it


@pytest.fixture
def corpus_with(tiny: dict[str, Artifact], tmp_path: Path) -> Callable[..., TokenShards]:
    """Make the tiny corpus with more pairs of ids behind it, from a corpus called poison."""

    def write(sources: list[list[int]], targets: list[list[int]]) -> TokenShards:
        table = pq.read_table(tiny["encode"].path / "train-00000.parquet")
        file, ids = tmp_path / "train-00000.parquet", pa.list_(pa.uint16())
        sides = [table["source"].to_pylist() + sources, table["target"].to_pylist() + targets]
        corpus = [*table["corpus"].cast(pa.string()).to_pylist(), *["poison"] * len(sources)]
        with ShardWriter(file, [pa.uint16()] * 2, {"vocab_size": "601"}) as writer:
            writer.write([pa.array(side, ids) for side in sides], pa.array(corpus), pa.array(range(len(corpus))))
        return TokenShards([file])

    return write


@pytest.fixture
def watch(pairs: tuple[TokenShards, DevSet], world: World, tmp_path: Path) -> Any:
    """Train to the end. Return the trainer, its log, and the notes of the watchdog."""

    def run(config: PipelineConfig, shards: TokenShards, ruin: float = 0.0) -> tuple[Trainer, Remembering, Points]:
        (tmp_path / "run").mkdir()
        torch.manual_seed(config.train.seed)
        model, listener = Transformer(config.model, shards.vocab_size), Remembering()
        with torch.no_grad():
            model.source_embedding.weight[POISON] += ruin
        trainer = Trainer(model, config.train, world, tmp_path / "run", listener)
        assert trainer.fit(shards, pairs[1], lambda: False)
        noted = (tmp_path / "run" / INCIDENTS).read_text().splitlines()
        return trainer, listener, [json.loads(line) for line in noted]

    return run


@pytest.mark.usefixtures("lateness")
def test_a_pair_that_ruins_the_loss_is_passed_by(
    watch: Any, corpus_with: Any, make_config: Any, tmp_path: Path
) -> None:
    """One source sentence holds a piece whose embedding is not a number, which would ruin all weights."""
    train = SHORT | {"max_updates": 100, "validate_every": 10, "checkpoint_every": 10, "keep_best": 2}
    wild = {"learning_rate_scale": 16.0, "keep_checkpoints": 2}  # so that the best are not the last
    config = make_config(train=train | wild, model={"tied_embeddings": "none"})
    trainer, listener, incidents = watch(config, corpus_with([[POISON, 3]], [[5, 3]]), ruin=float("nan"))
    assert trainer.progress.rollbacks == len(incidents) >= 1
    assert trainer.progress.update == 100
    lost = [incident["update"] - incident["back_to"] for incident in incidents]
    assert updates_passed_by(tmp_path / "run") == sum(lost) >= len(incidents)
    assert {incident["back_to"] % 10 for incident in incidents} == {0}
    for incident in incidents:
        assert incident["problem"] == "the loss is nan"
        assert "poison:930" in incident["pairs"]
    points = losses(listener.points)
    assert all(math.isfinite(loss) for loss in points.values())
    assert points[100] < points[25]
    told = [said for said in listener.said if "back to the checkpoint of update" in said]
    assert len(told) == len(incidents)
    assert "the loss is nan" in told[0]
    assert f"the first of its {len(incidents[0]['pairs'])} pairs" in told[0]
    dev_losses = {point["update"]: point["dev_loss"] for point in listener.points if "dev_loss" in point}
    best = set(sorted(dev_losses, key=dev_losses.__getitem__)[:2])
    assert best - {90, 100}
    assert {int(file.stem) for file in (tmp_path / "run" / "weights").iterdir()} == best | {90, 100}


class Ruining(Remembering):
    """Listener that ruins the weights just before a checkpoint is saved, after the validation of its update, once."""

    def __init__(self, model: Transformer, update: int) -> None:
        super().__init__()
        self.left = [update]
        self.model = model

    def point(self, values: Mapping[str, float]) -> None:
        super().point(values)
        if "dev_loss" in values and values["update"] in self.left:
            self.left.clear()
            ruin(self.model)


@torch.no_grad()
def ruin(model: Transformer) -> None:
    model.output.weight.fill_(float("nan"))


def test_a_checkpoint_that_was_saved_too_late_is_given_up(
    pairs: tuple[TokenShards, DevSet], make_config: Any, world: World, tmp_path: Path
) -> None:
    config = make_config(train=SHORT | {"max_updates": 75})
    model = Transformer(config.model, pairs[0].vocab_size)
    listener = Ruining(model, update=50)
    trainer = Trainer(model, config.train, world, tmp_path, listener)
    assert trainer.fit(*pairs, lambda: False)
    incidents = [json.loads(line) for line in (tmp_path / INCIDENTS).read_text().splitlines()]
    assert [(incident["update"], incident["back_to"]) for incident in incidents] == [(51, 50), (51, 25)]
    assert updates_passed_by(tmp_path) == 1 + 26
    assert (trainer.progress.update, trainer.progress.rollbacks) == (75, 2)
    for file in (tmp_path / "weights").iterdir():
        assert all(bool(weight.isfinite().all()) for weight in safetensors.torch.load_file(file).values()), file.name
    assert all(math.isfinite(loss) for loss in losses(listener.points).values())


def test_a_full_disk_costs_no_training_that_goes_back(
    pairs: tuple[TokenShards, DevSet], make_config: Any, world: World, tmp_path: Path
) -> None:
    """From an update of NaN on, the system refuses longer files, until training reports that it cannot write."""
    config = make_config(train=SHORT)
    model = Transformer(config.model, pairs[0].vocab_size)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    full: list[int] = []

    class Freeing(Remembering):
        def say(self, message: str) -> None:
            super().say(message)
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    listener = Freeing()
    trainer = Trainer(model, config.train, world, tmp_path, listener)

    def fill() -> bool:
        if trainer.progress.update == 30 and not full:
            full.append(30)
            trainer._checkpoints.wait()  # the checkpoint of update 25 is on disk, however busy the machine is
            ruin(model)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        return False

    try:
        assert trainer.fit(*pairs, fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "incidents.jsonl cannot be written" in listener.said[0]
    assert "back to the checkpoint of update 25" in listener.said[1]
    (incident,) = [json.loads(line) for line in (tmp_path / INCIDENTS).read_text().splitlines()]
    assert (incident["update"], incident["back_to"]) == (31, 25)


def test_an_update_of_noise_is_passed_by(watch: Any, corpus_with: Any, make_config: Any) -> None:
    """Pairs of random pieces with a unique length, so that they are in one batch."""
    draw = np.random.default_rng(1)
    noise = [[*draw.integers(4, 600, 62).tolist(), 3] for _ in range(16)]
    watched = {
        "micro_batch_tokens": 512,
        "spike_window": 20,
        "spike_deviations": 5,
        "max_rollbacks": 30,
        "max_updates": 150,
    }
    config = make_config(train=SHORT | watched | {"checkpoint_every": 10})
    trainer, listener, incidents = watch(config, corpus_with(noise, noise[::-1]))
    assert 1 <= trainer.progress.rollbacks == len(incidents)
    for incident in incidents:
        assert "deviations above" in incident["problem"]
        assert {pair.split(":")[0] for pair in incident["pairs"]} == {"poison"}
    halved = 0.5 ** (len(incidents) - 1)
    rates = {point["update"]: point["learning_rate"] for point in listener.points if "learning_rate" in point}
    assert rates[150] == pytest.approx(16**-0.5 * 150**-0.5 * halved)


def test_the_gradient_is_clipped(train: Any, make_config: Any, pairs: tuple[TokenShards, DevSet]) -> None:
    """If epsilon is far above the gradient, the first step of Adam is the gradient times rate / epsilon."""
    epsilon, rate = 1e3, 100.0
    one = {"max_updates": 1, "warmup_updates": 1, "adam_epsilon": epsilon, "learning_rate_scale": rate * 16**0.5}

    def gradient_norm(max_gradient_norm: float) -> float:
        config = make_config(train=one | {"max_gradient_norm": max_gradient_norm})
        run, _ = train(config, folder=f"{max_gradient_norm}")
        torch.manual_seed(config.train.seed)
        before = Transformer(config.model, pairs[0].vocab_size)
        steps = [a - b for a, b in zip(run.model.parameters(), before.parameters(), strict=True)]
        return float(torch.cat([step.detach().flatten() for step in steps]).norm()) * epsilon / rate

    free = gradient_norm(0.0)
    assert free > 0.1
    assert gradient_norm(0.05) == pytest.approx(0.05, rel=0.01)
    assert gradient_norm(10 * free) == pytest.approx(free, rel=1e-3)


def test_bf16_learns_as_fp32_does(train: Any, make_config: Any) -> None:
    curves = {}
    for precision in ("fp32", "bf16"):
        _, points = train(make_config(train=SHORT | {"max_updates": 25, "precision": precision}), folder=precision)
        curves[precision] = losses(points)[25]
    assert curves["bf16"] != curves["fp32"]
    assert curves["bf16"] == pytest.approx(curves["fp32"], rel=0.02)


def test_points_tell_of_speed_padding_and_rate(
    undisturbed: tuple[Path, Points], pairs: tuple[TokenShards, DevSet], make_config: Any
) -> None:
    point = next(point for point in undisturbed[1] if point["update"] == 50 and "train_loss" in point)
    assert point["learning_rate"] == pytest.approx(16**-0.5 * 50**-0.5)
    assert 0.85 < point["useful_token_share"] < 1
    assert point["target_tokens_per_second"] > 0
    assert point["target_tokens"] > 25 * 200
    assert point["gradient_norm"] > 0
    assert 0 < point["model_flop_utilisation"] < 1
    of_source, of_target = Transformer(make_config().model, pairs[0].vocab_size).weights_per_token
    of_one = point["floating_point_operations"] / point["target_tokens"]
    assert 6 * of_target < of_one < 6 * (of_target + 2 * of_source), "no source has twice the tokens of its target"
    assert 0 <= point["data_wait_share"] < 1
    assert point["memory_bytes"] > 1e8
    assert point["seconds_left"] == 0
    assert point["epoch"] in (0, 1)
