"""Phases of a training: each reads its own corpora, ends as its options say, and is resumed exactly."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch

from nmt_core.batches.shards import ShardWriter, TokenShards, read_pairs
from nmt_core.config import PipelineConfig, TrainConfig
from nmt_core.errors import StageError
from nmt_core.models.transformer import Transformer
from nmt_core.store.artifacts import Artifact
from nmt_core.train.curriculum import begin_next_phase, phase_is_over, read_phases, training_is_over
from nmt_core.train.curves import METRICS, Curves
from nmt_core.train.distributed import World
from nmt_core.train.progress import Progress
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet
from nmt_core.train.watchdog import INCIDENTS

OPTIONS = {"max_updates": 50, "validate_every": 10, "checkpoint_every": 20, "keep_checkpoints": 3, "max_tokens": 256}
TWO = [
    {"name": "synthetic-first", "corpora": {"synthetic": 1.0, "clean": 0.1}, "updates": 25},
    {"name": "clean-last", "corpora": {"clean": 1.0}},
]


@pytest.fixture(scope="module")
def text(tiny: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> tuple[TokenShards, DevSet]:
    """The tiny text as two corpora, each in row groups of its own and together in one."""
    table = pq.read_table(tiny["encode"].path / "train-00000.parquet")
    third, folder, ids = len(table) // 3, tmp_path_factory.mktemp("corpora"), pa.list_(pa.uint16())
    labels = ["clean"] * third + ["synthetic"] * third
    labels += ["clean" if row % 2 else "synthetic" for row in range(len(table) - 2 * third)]
    files = []
    for number, (start, end) in enumerate([(0, third), (third, 2 * third), (2 * third, len(table))]):
        files.append(folder / f"train-{number:05d}.parquet")
        sides = [pa.array(table[side].slice(start, end - start).to_pylist(), ids) for side in ("source", "target")]
        vocab = {"vocab_size": str(TokenShards([tiny["encode"].path / "train-00000.parquet"]).vocab_size)}
        with ShardWriter(files[-1], [pa.uint16()] * 2, vocab) as writer:
            writer.write(sides, pa.array(labels[start:end]), pa.array(range(start, end)))
    return TokenShards(files), DevSet(read_pairs([tiny["encode"].path / "dev.parquet"]))


@pytest.fixture
def options(make_config: Callable[..., PipelineConfig]) -> Callable[..., TrainConfig]:
    """Returns the options of a short training with a curriculum."""

    def of(curriculum: list[dict[str, Any]], **changes: Any) -> TrainConfig:
        small = make_config(train=OPTIONS).train.model_dump()
        return TrainConfig.model_validate(small | changes | {"curriculum": curriculum})

    return of


@pytest.fixture
def train(text: tuple[TokenShards, DevSet], make_config: Callable[..., PipelineConfig], world: World) -> Any:
    """Trains in a folder. The weights are ruined once, after update `ruined`."""

    def run(folder: Path, config: TrainConfig, stop_at: int = 0, ruined: int = 0) -> Progress:
        folder.mkdir(exist_ok=True)
        torch.manual_seed(config.seed)
        model = Transformer(make_config().model, text[0].vocab_size)
        trainer = Trainer(model, config, world, folder, Curves(folder / METRICS))
        left = [ruined] if ruined else []

        def should_stop() -> bool:
            if trainer.progress.update in left:
                left.clear()
                with torch.no_grad():
                    model.output.weight.fill_(float("nan"))
            return trainer.progress.update == stop_at - 1

        assert trainer.fit(*text, should_stop) is not bool(stop_at)
        return trainer.progress

    return run


def points_of(folder: Path) -> list[tuple[int, float]]:
    lines = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return sorted((line["update"], line.get("train_loss", line.get("dev_loss"))) for line in lines)


def corpora_at(folder: Path) -> list[tuple[int, set[str]]]:
    """Update of each incident, and the corpora of the pairs that were read there."""
    lines = [json.loads(line) for line in (folder / INCIDENTS).read_text().splitlines()]
    return [(line["update"], {pair.partition(":")[0] for pair in line["pairs"]}) for line in lines]


@pytest.mark.parametrize(("ruined", "read"), [(12, {"synthetic", "clean"}), (30, {"clean"})])
def test_each_phase_reads_its_own_corpora(
    train: Any, options: Any, tmp_path: Path, ruined: int, read: set[str]
) -> None:
    """An incident lists the pairs of its update. Training goes back to update 0 or 20, before the second phase."""
    progress = train(tmp_path, options(TWO, max_tokens=2_048), ruined=ruined)
    assert corpora_at(tmp_path) == [(ruined + 1, read)]
    assert (progress.update, progress.rollbacks, progress.phases_began) == (50, 1, [0, 25])
    begun = [(phase.phase, phase.began_after) for phase in read_phases(tmp_path)]
    assert begun == [("synthetic-first", 0), ("clean-last", 25)]


@pytest.mark.slow
def test_a_training_that_stops_in_any_phase_ends_in_the_same_weights(train: Any, options: Any, tmp_path: Path) -> None:
    config = options(TWO)
    train(tmp_path / "alone", config)
    for stop_at in (13, 25, 26, 41):  # 25 is the end of the first phase
        folder = tmp_path / f"{stop_at}"
        train(folder, config, stop_at=stop_at)
        assert train(folder, config).phases_began == [0, 25]
        name = f"weights/{50:09d}.safetensors"
        alone, resumed = (safetensors.torch.load_file(each / name) for each in (tmp_path / "alone", folder))
        assert all(torch.equal(alone[key], resumed[key]) for key in alone), stop_at
        assert points_of(folder) == points_of(tmp_path / "alone"), stop_at


def test_patience_counts_in_each_phase_for_itself(train: Any, options: Any, tmp_path: Path) -> None:
    """With steps too small to change a weight, the first validation of a phase is its best."""
    phases = [{"name": "first", "patience": 1}, {"name": "second", "patience": 2}]
    progress = train(tmp_path, options(phases, learning_rate_scale=1e-30, max_updates=500))
    assert (progress.phases_began, progress.update) == ([0, 20], 50)


def test_a_phase_without_text_ends_the_training_before_it_begins(train: Any, options: Any, tmp_path: Path) -> None:
    phases = [{"name": "all", "updates": 10}, {"name": "dreams", "corpora": {"back-translated": 1}}]
    with pytest.raises(StageError, match=r"phase dreams has no pair to read: .* none of back-translated,"):
        train(tmp_path, options(phases))
    assert not list(tmp_path.iterdir())


def test_a_phase_is_over_by_its_updates_or_its_patience(options: Any) -> None:
    config = options([{"name": "first", "updates": 20, "patience": 2}, {"name": "second"}])
    progress = Progress(update=19, validations_since_best=1, epoch=3, batch=7)
    assert not phase_is_over(config, progress)
    progress.update = 20
    assert phase_is_over(config, progress) and not training_is_over(config, progress)
    progress.update, progress.validations_since_best = 10, 2
    assert phase_is_over(config, progress)
    begin_next_phase(progress)
    assert (progress.phases_began, progress.epoch, progress.batch) == ([0, 10], 4, 0)
    assert not phase_is_over(config, progress) and not training_is_over(config, progress)
    progress.update = 50
    assert training_is_over(config, progress)


@pytest.mark.parametrize(
    ("curriculum", "changes", "message"),
    [
        ([{"name": "a"}, {"name": "b"}], {}, r"curriculum\.0: phase a never ends: set its updates or its patience"),
        ([{"name": "a", "updates": 5}, {"name": "a"}], {}, "two phases named a: rename one"),
        ([{"name": "a", "updates": 5}, {"name": "b", "updates": 9}], {}, r"curriculum\.1\.updates=9: the last phase"),
        (
            [{"name": "a", "updates": 50}, {"name": "b"}],
            {},
            r"phase b would begin after 50 updates, but max_updates=50",
        ),
        ([{"name": "a"}], {"patience": 3}, "patience=3 does not apply to a curriculum"),
        ([{"name": "a", "corpora": {"x": 0}}], {}, "greater than 0"),
    ],
)
def test_phases_that_cannot_be_are_refused(options: Any, curriculum: Any, changes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        options(curriculum, **changes)


def test_a_recipe_names_corpora_of_its_training_text(make_config: Callable[..., PipelineConfig]) -> None:
    make_config(train={"curriculum": [{"name": "all", "corpora": {"toy": 2}}]})
    with pytest.raises(ValueError, match=r"train\.curriculum\.0\.corpora: 'tay' is not in the training text \(toy\)"):
        make_config(train={"curriculum": [{"name": "all", "corpora": {"tay": 2}}]})
