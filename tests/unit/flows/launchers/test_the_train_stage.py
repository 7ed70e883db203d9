"""The real `train` stage and launchers, with the templates of the package, on stand-ins for clusters."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.launchers import launcher_for
from flows.launchers.kubernetes import KubernetesLauncher
from flows.launchers.slurm import SlurmLauncher
from flows.settings import Settings
from nmt_core.errors import PreemptedError, StageError
from nmt_core.execution.torchrun import Launcher, LocalTorchrun
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Store

UPDATES = 600


class InterruptionError(Exception):
    """Error that a test raises in a running stage, as Ctrl-C or a cancelled flow would."""


@dataclass
class Acting(SilentReporter):
    """Reporter that calls a function once when training has reached an update."""

    update: int
    act: Callable[[], None]
    done: bool = False

    def metrics(self, step: int, values: Any) -> None:
        if step >= self.update and not self.done:
            self.done = True
            self.act()


class Noted(SilentReporter):
    """Stream that keeps the output of the terminal."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, message: str) -> None:
        self.notices.append(message)


class Training:
    """One training, by any launcher, which may be started several times."""

    def __init__(self, config: Any, inputs: dict[str, Artifact], store: Store) -> None:
        self._config, self._inputs, self._store = config, inputs, store

    def by(self, launcher: Launcher, reporter: SilentReporter | None = None) -> Artifact:
        job = Job(reporter or SilentReporter(), Resources(), launcher=launcher)
        return run_stage(STAGES["train"], self._config, self._store, self._inputs, job).artifact

    @property
    def newest_update(self) -> int:
        """Return the update of the newest complete checkpoint."""
        return max(int(file.parent.name) for file in self._store.root.glob("train/*.partial/checkpoints/*/.metadata"))


@pytest.fixture
def training(make_config: Any, training_inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    config = make_config(train={"max_updates": UPDATES, "checkpoint_every": 500, "validate_every": 200})
    return Training(config, training_inputs(), Store(tmp_path / "store"))


def interrupt() -> None:
    raise InterruptionError


def settings_for(launcher: str) -> Settings:
    return Settings.load({"NMT_LAUNCHER": launcher, "NMT_PROCESSES": "1"})


@pytest.fixture(autouse=True)
def _ports_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port depends on the job's number, and other tests on this machine submit jobs too."""
    monkeypatch.setenv("SLURM_STAND_IN_FIRST", str(10 * os.getpid()))


@pytest.mark.slow
@pytest.mark.cpu(40)
def test_on_slurm_it_is_cancelled_and_resumes_to_the_end(training: Training, slurm: Any) -> None:
    launcher = SlurmLauncher(settings_for("slurm"), "tiny", poll=0.2)
    with pytest.raises(InterruptionError):
        training.by(launcher, Acting(25, interrupt))
    saved = training.newest_update
    assert 25 <= saved < 500, "SIGTERM saves where it stands, and not only where it would have been saved anyway"
    assert [job["code"] for job in slurm.jobs()] == ["75:0"]
    assert training.by(launcher).report()["updates"] == UPDATES
    assert slurm.states() == ["FAILED", "COMPLETED"]


@pytest.mark.slow
@pytest.mark.cpu(25)
def test_on_kubernetes_it_is_evicted_and_resumes_to_the_end(training: Training, cluster: Any) -> None:
    def evict() -> None:
        (running,) = cluster.jobs.values()
        running.process.terminate()

    launcher = KubernetesLauncher(settings_for("trainjob"), "tiny", poll=0.2)
    with pytest.raises(PreemptedError):
        training.by(launcher, Acting(25, evict))
    assert 25 <= training.newest_update < 500
    assert training.by(launcher).report()["updates"] == UPDATES


def test_a_failing_training_tells_its_reason(
    make_config: Any, training_inputs: Any, copy_of: Callable[[Artifact], Artifact], tmp_path: Path, slurm: Any
) -> None:
    encode = copy_of(training_inputs()["encode"])
    for shard in encode.path.glob("train-*.parquet"):
        shard.write_bytes(shard.read_bytes()[:1_000])
    training = Training(make_config(), training_inputs(encode=encode), Store(tmp_path / "store"))
    reporter = Noted()
    with pytest.raises(StageError, match="damaged token shard"):
        training.by(SlurmLauncher(settings_for("slurm"), "tiny", poll=0.2), reporter)
    (job,) = slurm.jobs()
    assert reporter.notices[-1].startswith(f"Slurm job {job['number']} ended: FAILED")
    assert all(notice.startswith("Slurm job") for notice in reporter.notices), "the rest is for the log"


def test_the_launcher_of_one_machine_is_the_default() -> None:
    assert launcher_for(Settings.load({"NMT_PROCESSES": "2", "NMT_THREADS": "3"})) == LocalTorchrun(2, 3)
