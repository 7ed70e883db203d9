"""The `train` stage learns, survives mishaps, and reports why it failed.

If processes are preempted or killed, the real `torchrun` has started them. `tests/distributed` interrupts the stage.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars
import psutil
import pytest
import safetensors.torch
import torch
from support.ranks import Ranks
from support.until import command_line, patient, until

from nmt_core.config import PipelineConfig
from nmt_core.errors import BudgetError, PreemptedError, StageError
from nmt_core.stages.stage import Inputs, Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.train.spent import read_spent

Train = Callable[..., Artifact]


@dataclass
class Acting(SilentReporter):
    """Reporter that calls a function once when training has reached an update."""

    update: int
    act: Callable[[], None]
    done: bool = False

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        if step >= self.update and not self.done:
            self.done = True
            self.act()


class Log(SilentReporter):
    """Reporter that keeps the lines of the log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, message: str) -> None:
        self.lines.append(message)


def training_processes() -> list[psutil.Process]:
    """Return torchrun and its children, torchrun first."""
    return [child for child in psutil.Process().children(recursive=True) if "nmt_core.train" in command_line(child)]


def preempt() -> None:
    """SIGTERM to all processes of the job, as a scheduler sends it."""
    for process in training_processes():
        process.terminate()


def kill_the_training_process() -> None:
    """Kill the process that trains with SIGKILL. torchrun, its parent, survives."""
    training_processes()[-1].kill()


CLOCK_AND_MACHINE = {
    "target_tokens_per_second",
    "model_flop_utilisation",
    "data_wait_share",
    "memory_bytes",
    "seconds_left",
}


def curve(folder: Path) -> list[dict[str, float]]:
    """Return the points of the curves without the values that depend on the clock and the machine."""
    points = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in point.items() if name not in CLOCK_AND_MACHINE} for point in points]


def newest_update(store: Store) -> int:
    """Return the update of the newest complete checkpoint of the only unfinished training."""
    return max(int(file.parent.name) for file in store.root.glob("train/*.partial/checkpoints/*/.metadata"))


@pytest.fixture(scope="module")
def config(make_config: Any) -> PipelineConfig:
    scored = {"dev_sentences": 10, "dev_samples": 2, "keep_best": 1}
    return make_config(train={"max_updates": 400, "checkpoint_every": 100, "validate_every": 50} | scored)


@pytest.fixture(scope="module")
def log() -> Log:
    """Log of the undisturbed training."""
    return Log()


@pytest.fixture(scope="module")
def undisturbed(
    start_training: Train, ranks: Ranks, config: PipelineConfig, tmp_path_factory: pytest.TempPathFactory, log: Log
) -> Artifact:
    return start_training(config, Store(tmp_path_factory.mktemp("undisturbed")), log, launcher=ranks.launcher())


def test_it_learns(undisturbed: Artifact) -> None:
    losses = [point["train_loss"] for point in curve(undisturbed.path) if "train_loss" in point]
    dev_losses = [point["dev_loss"] for point in curve(undisturbed.path) if "dev_loss" in point]
    assert losses[0] > 5.5
    assert losses[-1] < 2.6
    assert all(later < earlier + 0.05 for earlier, later in pairwise(dev_losses))
    assert dev_losses[0] > 4
    assert dev_losses[-1] < 2.5


def test_the_report_tells_the_last_of_the_curves(undisturbed: Artifact) -> None:
    report, points = undisturbed.report(), curve(undisturbed.path)
    assert report["updates"] == 400
    assert report["train_loss"] == [point["train_loss"] for point in points if "train_loss" in point][-1]
    assert report["dev_loss"] == report["best_dev_loss"] == points[-1]["dev_loss"]
    assert report["items_out"] == 3
    assert report["tokens"] == sum(point["target_tokens"] for point in points if "train_loss" in point)
    assert report["seconds"] > 0 and (report["attempts"], report["gpu_seconds"]) == (1, 0)
    assert 0.85 < report["useful_token_share"] < 1


def test_translations_of_the_dev_set_are_scored_and_shown(
    undisturbed: Artifact, log: Log, tiny: dict[str, Artifact]
) -> None:
    """A new user sees that the translations improve."""
    report, dev = undisturbed.report(), polars.read_parquet(tiny["split"].path / "dev.parquet")
    points = [point for point in curve(undisturbed.path) if "dev_loss" in point]
    assert (report["dev_bleu"], report["dev_chrf"]) == (points[-1]["dev_bleu"], points[-1]["dev_chrf"])
    assert points[-1]["dev_chrf"] > points[0]["dev_chrf"]
    scores = f"BLEU {report['dev_bleu']:.1f}, chrF {report['dev_chrf']:.1f}, lowest dev loss"
    (last,) = [number for number, line in enumerate(log.lines) if "update 400 of 400: dev loss" in line]
    assert scores in log.lines[last]
    first, second = log.lines[last - 8 : last - 4], log.lines[last - 4 : last]
    assert [first[0], second[0]] == ["line 1 of the dev set", "line 11 of the dev set"]
    assert first[1:3] == [f"  source      {dev['source'][0]}", f"  reference   {dev['target'][0]}"]
    assert second[3].startswith("  translation ")
    assert len(second[3].split()) > 2


def test_a_finished_run_keeps_weights_to_average_and_one_checkpoint(undisturbed: Artifact) -> None:
    names = [
        sorted(path.name for path in (undisturbed.path / folder).iterdir()) for folder in ("weights", "checkpoints")
    ]
    assert names == [[f"000000{update}.safetensors" for update in (200, 300, 400)], ["000000400"]]


@pytest.mark.faults  # in `make test`, `distributed/test_two_processes` stops and resumes a training
@pytest.mark.cpu(40)
def test_a_disturbed_run_ends_with_the_curve_of_an_undisturbed_one(
    start_training: Train, config: PipelineConfig, undisturbed: Artifact, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    with pytest.raises(PreemptedError, match="the same command resumes from there") as caught:
        start_training(config, store, Acting(25, preempt))
    assert caught.value.exit_code == 75
    assert 25 <= newest_update(store) < 400, "SIGTERM saves where it stands"
    assert newest_update(store) % 100, "and not only where it would have been saved anyway"
    assert not training_processes()

    killer = Acting(newest_update(store) + 125, kill_the_training_process)
    artifact = start_training(config, store, killer)
    assert killer.done, "torchrun starts another process, which resumes from the last checkpoint"
    assert_equal(artifact, undisturbed)


def test_a_spent_budget_ends_training_with_a_checkpoint_and_a_larger_one_resumes_from_there(
    start_training: Train, ranks: Ranks, make_config: Any, config: PipelineConfig, undisturbed: Artifact, tmp_path: Path
) -> None:
    store, launcher = Store(tmp_path), ranks.launcher()
    limited = config.model_copy(update={"budget": make_config(budget={"max_hours": 0.5 / 3_600}).budget})
    with pytest.raises(BudgetError, match=r"hours, and budget.max_hours=0.000138889\).*raise it") as caught:
        start_training(limited, store, SilentReporter(), launcher=launcher)
    assert caught.value.exit_code == 1
    assert 1 <= newest_update(store) < 400
    [folder] = store.root.glob("train/*.partial")
    spent = read_spent(folder)
    assert spent.seconds > 0.5 and spent.cpu_seconds > 0 and (spent.attempts, spent.gpu_seconds) == (1, 0)

    stopped_at = newest_update(store)
    with pytest.raises(BudgetError, match=f"after {stopped_at} updates?,"):
        start_training(limited, store, SilentReporter(), launcher=launcher)
    assert read_spent(folder) == spent, "no process is started to see what is known"

    artifact = start_training(config, store, SilentReporter(), launcher=launcher)
    assert_equal(artifact, undisturbed)
    assert artifact.fingerprint == undisturbed.fingerprint
    report = artifact.report()
    assert report["attempts"] == 2
    assert report["seconds"] > spent.seconds, "what was spent before counts"


def assert_equal(artifact: Artifact, undisturbed: Artifact) -> None:
    """The weights are equal to the last bit, and so are the curves."""
    for file in sorted((undisturbed.path / "weights").iterdir()):
        weights = safetensors.torch.load_file(artifact.path / "weights" / file.name)
        for name, tensor in safetensors.torch.load_file(file).items():
            assert torch.equal(weights[name], tensor), f"{name} after {file.stem} updates"
    assert curve(artifact.path) == curve(undisturbed.path)


def test_a_failing_process_tells_its_reason(
    make_config: Any, training_inputs: Any, copy_of: Callable[[Artifact], Artifact], tmp_path: Path, ranks: Ranks
) -> None:
    encode = copy_of(training_inputs()["encode"])
    shard = encode.path / "train-00000.parquet"
    shard.write_bytes(shard.read_bytes()[:1_000])
    inputs: Inputs = training_inputs(encode=encode)
    with pytest.raises(StageError, match="damaged token shard") as caught:
        job = Job(SilentReporter(), Resources(), launcher=ranks.launcher())
        run_stage(STAGES["train"], make_config(), Store(tmp_path / "store"), inputs, job)
    assert str(encode.path) in str(caught.value)
    assert "--force encode" in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.slow
def test_when_the_stage_is_killed_training_ends_too(make_config: Any, training_inputs: Any, tmp_path: Path) -> None:
    """SIGKILL of the process that started the training leaves no process behind."""
    config = make_config(train={"max_updates": 50_000})
    (tmp_path / "config.json").write_text(config.model_dump_json())
    inputs = {name: str(artifact.path) for name, artifact in training_inputs().items()}
    code = f"""
from pathlib import Path
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.config import PipelineConfig
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
folder = Path({str(tmp_path)!r})
config = PipelineConfig.model_validate_json((folder / "config.json").read_text())
inputs = {{name: Artifact(name, Path(path).name, Path(path)) for name, path in {inputs!r}.items()}}
run_stage(STAGES["train"], config, Store(folder / "store"), inputs, Job(SilentReporter(), Resources()))
"""
    stage = subprocess.Popen([sys.executable, "-c", code])
    family: list[psutil.Process] = []
    try:
        until(lambda: list((tmp_path / "store").glob("train/*.partial/metrics.jsonl")))
        family = psutil.Process(stage.pid).children(recursive=True)
        assert len(family) >= 2, "torchrun and the process that trains"
    finally:
        os.kill(stage.pid, signal.SIGKILL)
        stage.wait()
        _, alive = psutil.wait_procs(family, timeout=patient(30))
        for process in alive:
            process.kill()
    assert not alive
