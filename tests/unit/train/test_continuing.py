"""A training that continues one of another length or other logging ends bit for bit as if it had run alone."""

import functools
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from support.ranks import Ranks

from nmt_core.batches.shards import TokenShards, read_pairs
from nmt_core.config import PipelineConfig, TrainConfig
from nmt_core.models.transformer import Transformer
from nmt_core.stages.stage import IDENTITY
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.train.continuing import take_up_another
from nmt_core.train.curves import METRICS, Curves
from nmt_core.train.distributed import World
from nmt_core.train.other_trainings import ONLY_THE_END
from nmt_core.train.progress import Progress
from nmt_core.train.start import Start
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet
from nmt_core.train.watchdog import INCIDENTS

FIRST = {"max_updates": 40, "validate_every": 10, "checkpoint_every": 10, "keep_checkpoints": 3, "max_tokens": 256}
WILD = {
    "keep_best": 1,
    "keep_checkpoints": 2,
    "learning_rate_scale": 64.0,
}  # the loss only grows, so that the best are not the last
PHASES = {
    "curriculum": [
        {"name": "sample", "corpora": {"toy": 0.3}, "updates": 25},
        {"name": "all", "patience": 9},
    ]
}
# What follows from a clock is no part of a comparison.
TIMES = {"target_tokens_per_second", "model_flop_utilisation", "data_wait_share", "memory_bytes", "seconds_left"}


class Trainings:
    """Train in this process, as the stage does."""

    def __init__(self, root: Path, encoded: Artifact, world: World) -> None:
        self.root = root
        self.world = world
        self.shards = TokenShards([encoded.path / "train-00000.parquet"])
        self.dev = DevSet(read_pairs([encoded.path / "dev.parquet"]))
        self.made: dict[str, tuple[Path, Progress]] = {}

    def alone(self, config: PipelineConfig, stop_at: int, ruined: int) -> tuple[Path, Progress]:
        """Return a training that has no other one to continue from. It is made once."""
        key = json.dumps([config.model_dump(mode="json"), stop_at, ruined])
        if key not in self.made:
            out = self.root / f"{len(self.made)}"
            out.mkdir()
            self.made[key] = out, self.train(out, config, Start(), stop_at, ruined)
        return self.made[key]

    def train(self, out: Path, config: PipelineConfig, start: Start, stop_at: int = 0, ruined: int = 0) -> Progress:
        """Train in a folder, and return the final progress."""
        torch.manual_seed(config.train.seed)
        model = Transformer(config.model, self.shards.vocab_size)
        trainer = Trainer(model, config.train, self.world, out, Curves(out / METRICS), start)
        was_ruined = False

        def should_stop() -> bool:
            nonlocal was_ruined
            if ruined and trainer.progress.update == ruined and not was_ruined:
                was_ruined = True
                with torch.no_grad():
                    model.output.weight.fill_(float("nan"))
            return bool(stop_at) and trainer.progress.update == stop_at - 1

        assert trainer.fit(self.shards, self.dev, should_stop) is not bool(stop_at)
        return trainer.progress


class Job:
    """Trainings in folders side by side."""

    def __init__(self, root: Path, trainings: Trainings) -> None:
        self.root = root
        self.trainings = trainings
        self.said: list[str] = []

    def begin(self, name: str, config: TrainConfig, *, alone: bool = False) -> Path:
        """Make the folder of a training, with its identity."""
        out = self.root / ("alone" if alone else "store") / f"{name}.partial"
        out.mkdir(parents=True)
        identity = {"stage": "train", "inputs": {}, "config": {"train": config.model_dump(mode="json")}}
        (out / IDENTITY).write_text(json.dumps(identity))
        return out

    def first(
        self, name: str, config: PipelineConfig, stop_at: int = 0, ruined: int = 0, *, alone: bool = False
    ) -> Progress:
        """Train without another training to start from, and return the final progress."""
        folder, progress = self.trainings.alone(config, stop_at, ruined)
        shutil.copytree(folder, self.begin(name, config.train, alone=alone), dirs_exist_ok=True)
        return progress

    def next(self, name: str, config: PipelineConfig) -> Progress:
        """Train from the end of another training, and return the final progress."""
        out = self.begin(name, config.train)
        continued = take_up_another(out, config.train, self.said.append)
        # As the job's configuration takes it to the processes
        start = Start.model_validate_json(json.dumps(Start(continued=continued).model_dump(mode="json")))
        return self.trainings.train(out, config, start)

    def what_is_left(self, name: str, *, alone: bool = False) -> dict[str, Any]:
        """Weights, points and incidents that a training leaves behind."""
        out = self.root / ("alone" if alone else "store") / f"{name}.partial"
        files = {str(file.relative_to(out)): file.read_bytes() for file in sorted((out / "weights").iterdir())}
        lines = {file: lines_of(out / file) for file in (METRICS, INCIDENTS)}
        return {"checkpoints": sorted(file.name for file in (out / "checkpoints").iterdir()), **files, **lines}


def lines_of(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text().splitlines() if file.is_file() else []
    points = [{name: value for name, value in json.loads(line).items() if name not in TIMES} for line in lines]
    return sorted(points, key=lambda point: (point["update"], "dev_loss" in point))


@pytest.fixture(scope="module")
def trainings(tiny: dict[str, Artifact], world: World, tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    return Trainings(tmp_path_factory.mktemp("trainings"), tiny["encode"], world)


@pytest.fixture
def job(trainings: Trainings, tmp_path: Path) -> Job:
    return Job(tmp_path, trainings)


slow = functools.partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("first", "second", "stop_at"),
    [
        ({}, {"max_updates": 80}, 0),
        slow({"max_updates": 37}, {"max_updates": 80}, 0),  # an end between checkpoints, validations and points
        slow({}, {"max_updates": 80}, 33),  # stopped, not finished
        slow({}, {"max_updates": 60, "validate_every": 20, "checkpoint_every": 20, "keep_checkpoints": 2}, 0),
        slow({"max_updates": 45}, {"max_updates": 75, "validate_every": 50, "max_rollbacks": 9}, 0),
        (WILD, WILD | {"max_updates": 60}, 0),
        slow({"ema_decay": 0.9}, {"max_updates": 55, "ema_decay": 0.9}, 0),
        slow({"patience": 1, "learning_rate_scale": 30.0}, {"max_updates": 60, "learning_rate_scale": 30.0}, 0),
        (PHASES, PHASES | {"max_updates": 60}, 0),
    ],
    ids=["longer", "odd end", "stopped", "coarser", "rarer", "best", "average", "out of patience", "phases"],
)
def test_it_ends_as_if_it_had_begun_at_update_0(
    job: Job, make_config: Callable[..., PipelineConfig], first: Any, second: Any, stop_at: int
) -> None:
    longer = make_config(train=FIRST | second)
    alone = job.first("longer", longer, alone=True)
    short = job.first("short", make_config(train=FIRST | first), stop_at=stop_at)
    assert 0 < short.update < longer.train.max_updates
    together = job.next("longer", longer)
    assert job.said == [f"continuing from train/short, which has made the first {short.update} updates"]
    assert asdict(together) == asdict(alone)
    left = job.what_is_left("longer")
    assert left == job.what_is_left("longer", alone=True)
    assert left[METRICS]
    if "keep_best" in first:
        assert left["checkpoints"] == ["000000060"] and {f"weights/{n:09d}.safetensors" for n in (50, 60)} < left.keys()
        assert len([name for name in left if name.startswith("weights/")]) == 3, "the best is none of the last two"
    if "patience" in first:
        assert short.update < FIRST["max_updates"], "patience ended it"


def test_a_training_that_went_back_is_gone_on_from_as_well(
    job: Job, make_config: Callable[..., PipelineConfig]
) -> None:
    longer = make_config(train=FIRST | {"max_updates": 60, "max_rollbacks": 5})
    alone = job.first("longer", longer, ruined=25, alone=True)
    short = job.first("short", make_config(train=FIRST), ruined=25)
    assert (short.rollbacks, short.update) == (1, 40)
    assert asdict(job.next("longer", longer)) == asdict(alone)
    assert job.what_is_left("longer") == job.what_is_left("longer", alone=True)
    for change in ({"checkpoint_every": 20, "max_updates": 70}, {"max_rollbacks": 0, "max_updates": 80}):
        config = make_config(train=FIRST | change | {"keep_checkpoints": 2}).train
        job.said.clear()
        assert take_up_another(job.begin(f"{config.max_updates}", config), config, job.said.append) is None
        assert len(job.said) == 2 and all("it went back" in said for said in job.said), "neither serves"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"max_updates": 40, "patience": 5}, "this training ends at 40"),
        ({"max_updates": 60, "validate_every": 5}, "it did not validate at update 5,"),
        ({"max_updates": 60, "keep_checkpoints": 6}, "it has no weights of update 10,"),
        ({"max_updates": 60, "checkpoint_every": 5, "keep_checkpoints": 9}, "it has no weights of update"),
        ({"max_updates": 60, "seed": 2}, ""),
        ({"max_updates": 60, "warmup_updates": 51}, ""),
        ({"max_updates": 60, "keep_best": 1}, ""),
    ],
)
def test_it_begins_at_update_0_where_the_other_one_came_another_way(
    job: Job, make_config: Callable[..., PipelineConfig], change: Any, why: str
) -> None:
    job.first("short", make_config(train=FIRST))
    config = make_config(train=FIRST | change).train
    out = job.begin("next", config)
    assert take_up_another(out, config, job.said.append) is None
    assert [why in said for said in job.said] == ([True] if why else [])
    assert [file.name for file in out.iterdir()] == [IDENTITY]


def test_phases_that_ended_by_validations_are_not_continued(
    job: Job, make_config: Callable[..., PipelineConfig]
) -> None:
    """Another `validate_every` would have ended the phase at another update."""
    phases = {"curriculum": [{"name": "first", "patience": 1}, {"name": "second"}], "learning_rate_scale": 1e-30}
    assert job.first("short", make_config(train=FIRST | phases)).phases_began == [0, 20]
    config = make_config(train=FIRST | phases | {"max_updates": 60}).train
    assert take_up_another(job.begin("next", config), config, job.said.append) is None
    assert "validations decided when phase first" in job.said[-1]


def test_a_training_that_is_under_way_or_damaged_is_left_alone(
    job: Job, make_config: Callable[..., PipelineConfig], tmp_path: Path
) -> None:
    job.first("short", make_config(train=FIRST))
    config = make_config(train=FIRST | {"max_updates": 60}).train
    out = job.begin("next", config)
    with FileLock(tmp_path / "store" / "short.lock"):
        assert take_up_another(out, config, job.said.append) is None
    assert "it is being trained" in job.said[-1]
    (file,) = (tmp_path / "store" / "short.partial" / "checkpoints" / f"{40:09d}").glob("*.distcp")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert take_up_another(out, config, job.said.append) is None
    assert "differs from its checksum" in job.said[-1]
    assert [each.name for each in out.iterdir()] == [IDENTITY]


def test_the_learning_rate_knows_nothing_of_these_options(make_config: Callable[..., PipelineConfig]) -> None:
    """Were there a schedule that does, its trainings would have to differ: `ONLY_THE_END` would not hold."""
    from nmt_core.train.schedule import learning_rate

    for schedule in TrainConfig.model_fields["learning_rate_schedule"].annotation.__args__:
        usual = make_config(train={"learning_rate_schedule": schedule}).train
        other = usual.model_copy(update=dict.fromkeys(ONLY_THE_END, 7))
        rates = [[learning_rate(update, each, 16) for update in range(1, 200)] for each in (usual, other)]
        assert rates[0] == rates[1]


def test_the_stage_says_from_which_training_it_resumes(
    start_training: Any, ranks: Ranks, make_config: Callable[..., PipelineConfig], tmp_path: Path, reporter: Any
) -> None:
    """Through the real stage: each training keeps a fingerprint of its own."""
    store, launcher = Store(tmp_path / "together"), ranks.launcher()
    short = start_training(make_config(train=FIRST), store, reporter, launcher=launcher)
    longer = make_config(train=FIRST | {"max_updates": 60})
    together = start_training(longer, store, reporter, launcher=launcher)
    alone = start_training(longer, Store(tmp_path / "alone"), reporter, launcher=launcher)
    assert short.fingerprint != together.fingerprint == alone.fingerprint
    assert together.report()["continued_from"] == f"{short.short} at update 40"
    assert short.report()["continued_from"] == alone.report()["continued_from"] == ""
    assert [update for update, _ in reporter.points].count(10) == 3, "no curve begins in its middle"
    hashes = [
        {name: file.sha256 for name, file in artifact.manifest().outputs.items() if name.startswith("weights/")}
        for artifact in (together, alone)
    ]
    assert hashes[0] == hashes[1] and len(hashes[0]) == 3
    assert not any(IDENTITY in artifact.manifest().outputs for artifact in (short, together))
    assert short.damage(thorough=True) is None, "what it shares with the other one is as it was"
    for name in ("tokens", "floating_point_operations"):
        assert together.report()[name] == alone.report()[name] > 0, name
