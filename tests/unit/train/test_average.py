"""The `average` stage: its choice of checkpoints, and the average, which is kept only if it is better."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_file
from torch import Tensor

from nmt_core.batches.shards import DEV_FILE, TRAIN_FILES, ShardWriter, TokenShards, read_pairs
from nmt_core.config import ModelConfig, PipelineConfig
from nmt_core.errors import StageError
from nmt_core.models.transformer import Transformer
from nmt_core.stages.stage import Job, Resources, SilentReporter, restrict
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.tokenizer import EOS_ID
from nmt_core.train.average import MODEL_FILE, AverageReport, mean_weights, run
from nmt_core.train.curves import Curves
from nmt_core.train.distributed import World
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet

Weights = dict[str, Tensor]


@pytest.fixture(scope="module")
def trained(
    tiny: dict[str, Artifact], make_config: Any, world: World, tmp_path_factory: pytest.TempPathFactory
) -> Artifact:
    """Folder that the trainer leaves: four checkpoints, the last of update 100, and a moving average."""
    every = {"max_updates": 100, "validate_every": 25, "checkpoint_every": 25}
    config = make_config(train=every | {"keep_checkpoints": 4, "ema_decay": 0.9, "learning_rate_scale": 2.0})
    folder, data = tmp_path_factory.mktemp("train"), tiny["encode"].path
    shards, dev = TokenShards(sorted(data.glob(TRAIN_FILES))), read_pairs([data / DEV_FILE])
    torch.manual_seed(1)
    listener = Curves(folder / "metrics.jsonl")
    Trainer(Transformer(config.model, shards.vocab_size), config.train, world, folder, listener).fit(
        shards, DevSet(dev), lambda: False
    )
    return Artifact("train", "0" * 32, folder)


@pytest.fixture(scope="module")
def good(trained: Artifact) -> Weights:
    """Weights of a model that has learnt something."""
    return load_file(trained.path / "weights" / "000000100.safetensors")


def off(weights: Weights, by: float) -> Weights:
    """Return these weights plus noise of the deviation `by`, always along the same line, so that +x and -x cancel out.

    0.2 of it harms a model, and 1 ruins it.
    """
    draw = torch.Generator().manual_seed(1)
    return {name: each + by * torch.randn(each.shape, generator=draw) for name, each in weights.items()}


@dataclass
class Bench:
    """Run the stage on checkpoints of a test, with only the inputs that it declares."""

    encode: Artifact
    folder: Path
    config: PipelineConfig
    job: Job

    def average(self, files: Mapping[str, Weights]) -> AverageReport:
        """`files` are weights by name of file, without its suffix."""
        train = self.folder / "train" / "weights"
        train.mkdir(parents=True)
        for name, weights in files.items():
            save_file(weights, train / f"{name}.safetensors")
        return self.average_of(Artifact("train", "0" * 32, train.parent))

    def average_of(self, train: Artifact) -> AverageReport:
        stage, made, out = STAGES["average"], {"train": train, "encode": self.encode}, self.folder / "out"
        out.mkdir()
        inputs = {name: made[name] for name in stage.needs}
        return run(restrict(self.config, stage.sections), inputs, out, self.job)

    def written(self) -> Weights:
        return load_file(self.folder / "out" / MODEL_FILE)


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job) -> MakeBench:
    def make(strategy: str = "last", checkpoints: int = 2) -> Bench:
        config = make_config(
            average={"strategy": strategy, "checkpoints": checkpoints},
            train={"keep_checkpoints": 9, "ema_decay": 0.9},
        )
        return Bench(tiny["encode"], tmp_path, config, job)

    return make


def test_the_mean_of_the_last_checkpoints(bench: MakeBench, good: Weights, reporter: Any) -> None:
    """Names are in the order of updates, and not in alphabetical order without zeros."""
    noise = {50: 1.0, 100: 0.2, 900: 0.2, 1_000: -0.4}
    files = {f"{update:09d}": off(good, by) for update, by in noise.items()}
    stage = bench("last", 3)
    report = stage.average(files)
    assert report.checkpoints == ["100", "900", "1000"]
    assert (report.items_in, report.items_out, report.strategy) == (4, 1, "last")
    members = [files[f"{update:09d}"] for update in (100, 900, 1_000)]
    for name, tensor in stage.written().items():
        expected = torch.stack([member[name] for member in members]).double().mean(0).float()
        torch.testing.assert_close(tensor, expected, rtol=0, atol=1e-7)
    assert report.averaged_dev_loss < report.best_single_dev_loss
    assert report.taken == "averaged"
    assert "the average is used" in reporter.lines[-1]


def test_the_mean_is_exact_where_fp32_sums_are_not(tmp_path: Path) -> None:
    files = []
    for number, value in enumerate([1e8, 1.0, -1e8]):
        files.append(tmp_path / f"{number}.safetensors")
        save_file({"weight": torch.tensor([value])}, files[-1])
    assert mean_weights(files)["weight"].item() == pytest.approx(1 / 3)


@pytest.mark.parametrize(("strategy", "expected"), [("best", ["1", "3"]), ("last", ["3", "4"])])
def test_the_best_have_the_lowest_dev_loss(bench: MakeBench, good: Weights, strategy: str, expected: list[str]) -> None:
    noise = {1: 0.2, 2: 1.0, 3: -0.2, 4: 1.0}
    files = {f"{update:09d}": off(good, by) for update, by in noise.items()}
    report = bench(strategy).average(files)
    assert report.checkpoints == expected
    losses = {each.update: each.dev_loss for each in report.kept}
    assert list(losses) == [1, 2, 3, 4]
    assert max(losses[1], losses[3]) < min(losses[2], losses[4])
    assert report.taken == ("averaged" if strategy == "best" else "single")


def test_an_average_that_is_worse_gives_way_to_the_best_checkpoint(
    bench: MakeBench, good: Weights, reporter: Any
) -> None:
    stage = bench("last")
    report = stage.average({"000000005": good, "000000006": good, "000000007": off(good, 1.0)})
    assert (report.taken, report.best_single) == ("single", 5)
    assert report.checkpoints == ["6", "7"], "the checkpoints that were averaged, although the average is not used"
    assert report.best_single_dev_loss < report.averaged_dev_loss
    written = stage.written()
    assert written.keys() == good.keys()
    assert all(torch.equal(written[name], good[name]) for name in good)
    assert "of update 5 alone: the checkpoint is used" in reporter.lines[-1]


def test_a_tie_goes_to_the_average(bench: MakeBench, good: Weights) -> None:
    report = bench("last").average({"000000005": good, "000000006": good})
    assert report.averaged_dev_loss == report.best_single_dev_loss
    assert report.taken == "averaged"


def test_the_newest_moving_average_is_taken(bench: MakeBench, good: Weights) -> None:
    stage = bench("ema", checkpoints=5)  # more than are there, which does not matter here
    files = {"000000001": off(good, 0.2), "000000002": off(good, -0.2)}
    report = stage.average(files | {"000000001.ema": off(good, 1.0), "000000002.ema": good})
    assert (report.taken, report.checkpoints, report.strategy) == ("averaged", ["2"], "ema")
    assert [each.update for each in report.kept] == [1, 2]
    assert all(torch.equal(tensor, good[name]) for name, tensor in stage.written().items())


def test_a_moving_average_that_is_worse_gives_way(bench: MakeBench, good: Weights) -> None:
    stage = bench("ema")
    report = stage.average({"000000002": good, "000000002.ema": off(good, 1.0)})
    assert (report.taken, report.best_single) == ("single", 2)
    assert all(torch.equal(tensor, good[name]) for name, tensor in stage.written().items())


@pytest.mark.parametrize("strategy", ["last", "best"])
def test_a_moving_average_is_no_checkpoint(bench: MakeBench, good: Weights, strategy: str) -> None:
    files = {"000000001": off(good, 0.2), "000000002": off(good, -0.2), "000000002.ema": good}
    report = bench(strategy).average(files)
    assert report.checkpoints == ["1", "2"]
    assert [each.update for each in report.kept] == [1, 2]


@pytest.mark.parametrize("strategy", ["last", "best", "ema"])
def test_what_the_trainer_leaves_is_taken_with_the_losses_of_training(
    bench: MakeBench, trained: Artifact, strategy: str
) -> None:
    report = bench(strategy, 3).average_of(trained)
    points = [json.loads(line) for line in (trained.path / "metrics.jsonl").read_text().splitlines()]
    expected = {point["update"]: point["dev_loss"] for point in points if "dev_loss" in point}
    assert {each.update: each.dev_loss for each in report.kept} == pytest.approx(expected, rel=1e-5)
    assert report.checkpoints == (["100"] if strategy == "ema" else ["50", "75", "100"])
    assert report.best_single == 100


def test_a_checkpoint_of_nan_is_never_the_best(bench: MakeBench, good: Weights) -> None:
    ruined = {name: tensor * math.nan for name, tensor in good.items()}
    stage = bench("last")
    report = stage.average({"000000001": ruined, "000000002": good, "000000003": good})
    assert (report.taken, report.best_single) == ("averaged", 2)
    assert json.loads(report.model_dump_json())["kept"][0] == {"update": 1, "dev_loss": None}


def test_nothing_but_nan_is_an_error(bench: MakeBench, good: Weights) -> None:
    ruined = {name: tensor * math.nan for name, tensor in good.items()}
    with pytest.raises(StageError, match=r"no checkpoint has a finite dev loss: lower train\.learning_rate_scale"):
        bench("best").average({"000000001": ruined, "000000002": ruined})


def test_too_few_checkpoints_are_told_with_the_remedy(bench: MakeBench, good: Weights) -> None:
    stage = bench("best", 5)
    with pytest.raises(
        StageError, match=r"average\.checkpoints=5: training left 1: set it lower, or lower train\.checkpoint_every"
    ):
        stage.average({"000000001": good, "000000001.ema": good})
    assert not (stage.folder / "out" / MODEL_FILE).exists()


def test_no_moving_average_is_told_with_the_remedy(bench: MakeBench, good: Weights) -> None:
    with pytest.raises(StageError, match=r"average\.strategy=ema: training left no moving average: set train\.ema_dec"):
        bench("ema").average({"000000001": good})


def test_a_recipe_that_averages_what_training_will_not_keep_is_refused(make_config: Any) -> None:
    with pytest.raises(ValueError, match=r"average\.strategy=ema needs a moving average: set train\.ema_decay"):
        make_config(average={"strategy": "ema"})
    with pytest.raises(ValueError, match=r"average\.checkpoints=4 is more than train\.keep_checkpoints=3"):
        make_config(average={"strategy": "best", "checkpoints": 4})
    make_config(average={"strategy": "ema", "checkpoints": 4}, train={"ema_decay": 0.9})


@pytest.mark.parametrize(
    ("tied", "source_pieces", "matrices"),
    [("three_way", None, 1), ("two_way", None, 2), ("none", None, 3), ("two_way", 40, 2), ("none", 40, 3)],
)
def test_any_ties_and_vocabularies(
    tmp_path: Path, make_config: Any, job: Job, tied: str, source_pieces: int | None, matrices: int
) -> None:
    size = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = make_config(model=size | {"tied_embeddings": tied})
    (tmp_path / "encode").mkdir()
    write_dev(tmp_path / "encode" / DEV_FILE, 30, source_pieces)
    torch.manual_seed(1)
    weights = {name: each.detach() for name, each in make_model(config.model, source_pieces).named_parameters()}
    stage = Bench(Artifact("encode", "0" * 32, tmp_path / "encode"), tmp_path, config, job)
    report = stage.average({"000000001": off(weights, 0.01), "000000002": off(weights, -0.01)})
    assert math.isfinite(report.averaged_dev_loss)
    written = stage.written()
    assert sum("embedding" in name or name == "output.weight" for name in written) == matrices
    assert load_model(make_model(config.model, source_pieces), tmp_path / "out" / MODEL_FILE) == (set(), [])


@pytest.mark.parametrize(("checkpoints", "taken"), [(2, "averaged"), (1, "averaged"), (2, "single")])
def test_the_model_says_of_itself_what_the_checkpoints_say(
    bench: MakeBench, good: Weights, tmp_path: Path, checkpoints: int, taken: str
) -> None:
    folder = tmp_path / "checkpoints"
    (folder / "weights").mkdir(parents=True)
    for update in (1, 2):
        noise = 0.01 if taken == "averaged" else float(update - 1)
        save_file(off(good, noise), folder / "weights" / f"{update:09d}.safetensors", {"nmt": "what it is of"})
    stage = bench("last", checkpoints)
    assert stage.average_of(Artifact("train", "0" * 32, folder)).taken == taken
    with safe_open(tmp_path / "out" / MODEL_FILE, "pt") as reader:
        assert reader.metadata() == {"nmt": "what it is of"}


def make_model(config: ModelConfig, source_pieces: int | None) -> Transformer:
    return Transformer(config, 30, source_vocab_size=source_pieces)


def write_dev(file: Path, pieces: int, source_pieces: int | None) -> None:
    """Fifty pairs of random ids."""
    draw = np.random.default_rng(1)
    metadata = {"vocab_size": str(pieces)} | ({"source_vocab_size": str(source_pieces)} if source_pieces else {})
    sides = [
        pa.array([[*draw.integers(4, highest, draw.integers(1, 9)), EOS_ID] for _ in range(50)], pa.list_(pa.uint16()))
        for highest in (source_pieces or pieces, pieces)
    ]
    with ShardWriter(file, [pa.uint16(), pa.uint16()], metadata) as writer:
        writer.write(sides, pa.array(["dev"] * 50).dictionary_encode(), pa.array(range(50)))


def test_it_keeps_as_many_threads_busy_as_it_was_given(bench: MakeBench, good: Weights) -> None:
    seen = []

    class Watching(SilentReporter):
        def progress(self, done: float, total: float, note: str = "") -> None:
            seen.append((done, total, torch.get_num_threads()))

    stage = bench("last", 1)
    stage.job = Job(Watching(), Resources(threads=2))
    before = torch.get_num_threads()
    stage.average({"000000001": good})
    assert seen == [(1, 2, 2), (2, 2, before)]
    assert before == torch.get_num_threads() == 1
