"""`nmt` while its training is preempted, or servers are away: it ends with the right code, and loses nothing."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient
from support.forked import Zygote, read_at_start, start
from support.prefect_api import headers
from support.until import patient, until

from flows.servers.secret import new_secret
from flows.servers.servers import Server, held_port, start_mlflow, start_prefect
from flows.settings import Settings
from flows.tracking.describing import STAGE_TAG
from nmt_core.train.trainer import LOG_EVERY

pytestmark = pytest.mark.timeout(900)
Curve = Callable[[Path], list[dict[str, float]]]

SMALL = """
    corpus.toy.pairs=1000 corpus.toy.held_out=20 tokenizer.vocab_size=600
    model.d_model=16 model.d_ff=32 model.num_heads=2 model.encoder_layers=1 model.decoder_layers=1
    train.max_updates=100000 train.max_tokens=512 train.micro_batch_tokens=256 train.validate_every=10
    train.checkpoint_every=1000
"""
RECIPE = ["quickstart", *(part for each in SMALL.split() for part in ("--set", each))]
SECONDS_AWAY = 15


@dataclass
class Command:
    """`nmt` in its own home."""

    home: Path
    environment: dict[str, str]
    find: Callable[[str], list[psutil.Process]]
    zygote: Zygote
    process: "subprocess.Popen[str] | None" = None

    @property
    def log(self) -> str:
        return (self.home / "log").read_text()

    @property
    def made(self) -> Path:
        """Return the folder that training has written so far."""
        (found,) = self.home.glob("artifacts/train/*.partial")
        return found

    def start(self, *arguments: str) -> None:
        environment = self.environment | read_at_start(os.environ)  # which `Settings.prepare` may have changed
        with (self.home / "log").open("ab") as log:
            options = {"cwd": self.home, "env": environment, "stdout": log, "stderr": log}
            self.process = start(self.zygote, arguments, **options)

    def end(self) -> int:
        assert self.process
        return self.process.wait(patient(150))

    def updates(self, curve: Curve) -> int:
        """Return the updates in the curves."""
        with contextlib.suppress(FileNotFoundError, ValueError, IndexError):  # not there yet, or not wholly
            return int(curve(self.made)[-1]["update"])
        return 0

    def wait_for(self, condition: Callable[[], object]) -> None:
        def holds() -> bool:
            assert self.process
            assert self.process.poll() is None, self.log
            return bool(condition())

        until(holds, lambda: self.log, every=0.05)

    def training(self) -> list[psutil.Process]:
        """All processes of the training."""
        return self.find(f"{self.made}/config.json")

    def preempt(self) -> None:
        """SIGTERM to all processes of the training."""
        for process in self.training():
            process.send_signal(signal.SIGTERM)

    def stay(self, seconds: float) -> None:
        """Wait this many seconds, while the command runs."""
        began = time.monotonic()
        self.wait_for(lambda: time.monotonic() > began + seconds)

    def newest_complete(self) -> int:
        return max(int(file.parent.name) for file in self.made.glob("checkpoints/*/.metadata"))


@pytest.fixture
def nmt(
    tmp_path: Path,
    named_in: Callable[[str], list[psutil.Process]],
    zygote: Zygote,
    prefect_database: Path,
    mlflow_database: Path,
) -> Iterator[Command]:
    (tmp_path / "prefect").mkdir(exist_ok=True)
    shutil.copyfile(prefect_database, tmp_path / "prefect" / "prefect.db")
    shutil.copyfile(mlflow_database, tmp_path / "mlflow.db")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NMT_", "PREFECT_", "MLFLOW_"))}
    own |= {"NMT_HOME": str(tmp_path), "NMT_THREADS": "1"}
    command = Command(tmp_path, own, named_in, zygote)
    yield command
    if command.process and command.process.poll() is None:
        command.process.terminate()
        command.process.wait(patient(60))


@pytest.mark.faults
@pytest.mark.cpu(40)
def test_a_preempted_command_says_so_and_resumes(nmt: Command, curve: Curve) -> None:
    """The exit code is 75 if training loses its machines, and 143 if the command itself gets the signal."""
    nmt.start("run", *RECIPE, "--until", "train")
    nmt.wait_for(lambda: nmt.updates(curve) >= 20)
    nmt.preempt()
    assert nmt.end() == 75, nmt.log
    first = nmt.newest_complete()
    assert first >= 20
    assert f"stopped from outside after {first} updates, with a checkpoint" in nmt.log
    assert len(list(nmt.home.glob("mlflow/*/artifacts/curves.svg"))) == 1, "of the curves so far"
    assert "Traceback" not in nmt.log
    kept = (nmt.made / "metrics.jsonl").read_bytes()

    nmt.start("stage", "train", *RECIPE)
    nmt.wait_for(lambda: nmt.updates(curve) >= first + 20)
    assert nmt.process
    nmt.process.terminate()
    assert nmt.end() == 143, nmt.log
    assert nmt.newest_complete() >= first + 20, "asked to end, it saves too"
    assert not nmt.find(str(nmt.home)), "something lives on"
    assert (nmt.made / "metrics.jsonl").read_bytes().startswith(kept)
    assert "Traceback" not in nmt.log
    validations = [point["update"] for point in curve(nmt.made) if "dev_loss" in point]
    assert validations == list(range(10, int(validations[-1]) + 10, 10)), "none is left out, none is there twice"


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """Settings of the home in `tmp_path`. The environment variables that they set are removed at the end."""
    before = dict(os.environ)
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    settings.prepare()
    yield settings
    os.environ.clear()
    os.environ.update(before)


def run_of_train(settings: Settings) -> tuple[MlflowClient, Run]:
    """Return the run that MLflow has."""
    client = MlflowClient(settings.mlflow_tracking_uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    (run,) = [run for run in client.search_runs(experiments) if run.data.tags.get(STAGE_TAG) == "train"]
    return client, run


def points_in_mlflow(settings: Settings, name: str) -> list[tuple[int, float]]:
    """A curve of the run of `train`."""
    client, run = run_of_train(settings)
    return sorted((point.step, point.value) for point in client.get_metric_history(run.info.run_id, name))


@pytest.mark.faults
@pytest.mark.cpu(50)
def test_mlflow_goes_away_and_comes_back(nmt: Command, settings: Settings, curve: Curve, free_port: int) -> None:
    """Training continues meanwhile, and afterwards MLflow has each point exactly once."""
    health = f"http://127.0.0.1:{free_port}/health"
    server = start_mlflow(settings, free_port)
    try:
        server.wait_until(health, timeout=patient(120))
        nmt.environment["MLFLOW_TRACKING_URI"] = f"http://127.0.0.1:{free_port}"
        nmt.start("run", *RECIPE, "--until", "train")
        nmt.wait_for(lambda: nmt.updates(curve) >= 20)
        server.stop()
        before = nmt.updates(curve)
        nmt.wait_for(lambda: nmt.updates(curve) >= before + 30)
        nmt.wait_for(lambda: "does not answer: continuing, and logging later" in nmt.log)
        with contextlib.ExitStack() as resumed:  # it has made its point, and need not compute all the while
            for process in nmt.training():
                process.suspend()
                resumed.callback(process.resume)
            nmt.stay(SECONDS_AWAY)
        server = start_mlflow(settings, free_port)
        server.wait_until(health, timeout=patient(120))
        back = nmt.updates(curve)
        nmt.wait_for(lambda: nmt.updates(curve) >= back + 20)
        nmt.preempt()
        assert nmt.end() == 75, nmt.log
    finally:
        server.stop()
    for name in ("train_loss", "dev_loss"):
        expected = [(point["update"], point[name]) for point in curve(nmt.made) if name in point]
        assert points_in_mlflow(settings, name) == expected
    samples = points_in_mlflow(settings, "system/cpu_utilization_percentage")
    assert [step for step, _ in samples] == list(range(len(samples))), "nor of the machine, every 10 seconds"
    assert len(samples) >= SECONDS_AWAY // 10
    assert "is lost" not in nmt.log


@dataclass
class Servers:
    """Prefect and MLflow as `nmt up` starts them: own processes that keep their data over a restart."""

    settings: Settings
    prefect_port: int
    mlflow_port: int
    secret: str = field(default_factory=new_secret)
    running: list[Server] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that tell `nmt` the addresses."""
        return {
            "PREFECT_API_URL": f"http://127.0.0.1:{self.prefect_port}/api",
            "PREFECT_API_AUTH_STRING": self.secret,
            "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{self.mlflow_port}",
        }

    def start(self) -> None:
        self.running.append(start_mlflow(self.settings, self.mlflow_port))
        self.running.append(start_prefect(self.settings, self.prefect_port, self.secret, embedded=False))
        self.running[0].wait_until(f"http://127.0.0.1:{self.mlflow_port}/health", timeout=patient(120))
        self.running[1].wait_until(f"http://127.0.0.1:{self.prefect_port}/api/health", timeout=patient(120))

    def kill(self) -> None:
        """Kill the servers with SIGKILL: their clients get no message."""
        while self.running:
            self.running.pop().stop(grace=0)

    def in_prefect(self, kind: str) -> list[dict[str, Any]]:
        """All flow_runs, task_runs, artifacts or logs."""
        found: list[dict[str, Any]] = []
        while True:  # a page has 200 at most
            page = {"limit": 200, "offset": len(found)}
            api = self.environment["PREFECT_API_URL"]
            response = httpx.post(f"{api}/{kind}/filter", json=page, headers=headers(api, self.secret))
            response.raise_for_status()
            found += response.json()
            if len(response.json()) < page["limit"]:
                return found


@pytest.fixture
def servers(settings: Settings, nmt: Command) -> Iterator[Servers]:
    with held_port() as prefect_port, held_port() as mlflow_port:
        servers = Servers(settings, prefect_port, mlflow_port)
        servers.start()
        nmt.environment |= servers.environment
        yield servers
        servers.kill()


@pytest.mark.cpu(50)
@pytest.mark.parametrize(
    "seconds", [pytest.param(20, marks=pytest.mark.faults), pytest.param(120, marks=pytest.mark.nightly)]
)
def test_some_time_without_prefect_and_mlflow_costs_nothing(
    seconds: int, nmt: Command, servers: Servers, settings: Settings, curve: Curve
) -> None:
    """Both servers are killed during training, which ends in the meantime unless the machine is slow."""
    last = 200
    nmt.start("run", *RECIPE, "--set", f"train.max_updates={last}", "--until", "train")
    nmt.wait_for(lambda: nmt.updates(curve) >= 20)
    servers.kill()
    nmt.stay(seconds)
    servers.start()
    assert nmt.end() == 0, nmt.log
    assert "does not answer: continuing, and logging later" in nmt.log
    for word in ("is lost", "Traceback", "Error", "ERROR"):
        assert word not in nmt.log

    (made,) = nmt.home.glob("artifacts/train/*/metrics.jsonl")
    points = curve(made.parent)
    for name, every in {"train_loss": LOG_EVERY, "dev_loss": 10}.items():
        expected = [(point["update"], point[name]) for point in points if name in point]
        assert [update for update, _ in expected] == list(range(every, last + 1, every)), "no update is lost"
        assert points_in_mlflow(settings, name) == expected
    client, train = run_of_train(settings)
    assert {run.info.status for run in client.search_runs([train.info.experiment_id])} == {"FINISHED"}
    assert "curves.svg" in [file.path for file in client.list_artifacts(train.info.run_id)]

    (flow,) = servers.in_prefect("flow_runs")
    assert flow["state_name"] == "Completed"
    assert "report-train" in {artifact["key"] for artifact in servers.in_prefect("artifacts")}
    logged = [line["message"].partition(":")[0] for line in servers.in_prefect("logs")]
    told = [f"update {point['update']:,} of {last:,}" for point in points]
    assert sorted(line for line in logged if line.startswith("update ")) == sorted(told)
    until(  # Prefect learns the states of tasks from events, a moment later
        lambda: {task["state_name"] for task in servers.in_prefect("task_runs")} == {"Completed"},
        lambda: str(servers.in_prefect("task_runs")),
        every=0.5,
    )
