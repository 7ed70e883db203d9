"""Worker killed or ended, machine gone, server killed, while a run trains: what lives goes on, of the dead it is said.

The servers are those of `nmt up` or, where one of them is killed, started one by one; workers are `nmt worker`.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.until import patient, until, until_gone

from flows.secret import kept_secret
from flows.servers import Server, start_prefect
from flows.settings import Settings
from flows.silence import HEARTBEATS_MISSED
from nmt_core.processes import this_process

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

_POOL = "other"
_SECONDS_UNTIL_TRAINING = 300
_SECONDS_UNTIL_THE_END = 400
_SECONDS_WITHOUT_A_SERVER = 8
_HEARTBEAT_SECONDS = 30
_SECONDS_UNTIL_ALL_ARE_SILENT = 100  # of a server that is away: it is back after the time of each run was up
_SECONDS_UNTIL_IT_IS_SURE = (
    180  # how long after that the server may take to notice, and `reconcile` to start and listen
)


def engines(home: Any) -> list[psutil.Process]:
    """Processes that run flows on this home."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "prefect.engine" in process.cmdline() and process.environ().get("NMT_HOME") == str(home):
                found.append(process)
    return found


def kill_all(processes: list[psutil.Process]) -> None:
    """kill -9 of processes and all their descendants, at one moment: nobody sees another die."""
    family = dict.fromkeys(member for each in processes for member in (each, *each.children(recursive=True)))
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                act(member)
    until_gone(family)


def training(up: Any, nmt: Any, run: str, after: int = 0) -> None:
    """Return when a run trains, and is beyond an update."""

    def trains() -> bool:
        assert up.state(run) in ("SCHEDULED", "PENDING", "RUNNING"), story(up, run)
        return any(
            json.loads(line)["update"] > after
            for file in nmt.home.glob("artifacts/train/*.partial/metrics.jsonl")
            for line in file.read_text().splitlines()
            if "train_loss" in line and line.endswith("}")
        )

    until(trains, lambda: str(up.call(f"flow_runs/{run}")["state"]), _SECONDS_UNTIL_TRAINING, every=0.1)


def story(up: Any, run: str) -> str:
    """States that a run was in and the end of its log, for whoever wonders how it came to its end."""
    states = up.call(f"flow_run_states/?flow_run_id={run}")
    ours = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_DESC", "limit": 40}
    log = [f"{line['timestamp']} {line['message']}" for line in reversed(up.call("logs/filter", ours))]
    return "\n".join([*(f"{each['timestamp']} {each['name']}: {each['message']}" for each in states), *log])


def heard_of(up: Any, run: str) -> None:
    """Return when the server has had a sign of life of a run."""
    ours = {"event": {"name": ["prefect.flow-run.heartbeat"]}, "resource": {"id": [f"prefect.flow-run.{run}"]}}
    until(lambda: up.call("events/filter", {"filter": ours})["events"], "no heartbeat", every=0.5)


def polling(up: Any, pool: str) -> set[str]:
    """Workers that have ever polled a pool."""
    return {each["name"] for each in up.call(f"work_pools/{pool}/workers/filter", {})}


def long(config: dict[str, Any], updates: int) -> dict[str, Any]:
    """A recipe that trains for a while."""
    return config | {"train": config["train"] | {"max_updates": updates}}


@pytest.fixture
def worker(nmt: Any, tmp_path: Path) -> Iterator[Callable[..., psutil.Process]]:
    """Starts `nmt worker` for a pool; all of them end. What they and their runs say is shown if the test fails."""
    started: list[psutil.Process] = []
    log = tmp_path / "workers.log"

    def start(up: Any, pool: str = _POOL) -> psutil.Process:
        server = {"PREFECT_API_URL": up.servers["prefect"], "PREFECT_WORKER_QUERY_SECONDS": "2"}
        before = polling(up, pool)
        process = nmt.start("worker", "--pool", pool, log=log, **server)
        started.append(psutil.Process(process.pid))
        until(
            lambda: polling(up, pool) - before or process.poll() is not None,
            "the server does not know of the worker",
            every=0.5,
        )
        assert process.poll() is None, log.read_text()
        return started[-1]

    yield start
    kill_all([each for each in started if each.is_running()] + engines(nmt.home))
    if log.exists():  # else the test has failed before it started one
        print(log.read_text())


@pytest.fixture
def deployed(nmt: Any, start_up: Any, webhook: Any) -> Any:
    """`nmt up`, and the deployments of the quickstart for workers that it has not started."""
    up = start_up(nmt)
    nmt("deploy", "quickstart", "--pool", _POOL, NMT_NOTIFY=webhook.address)
    return up


def test_a_run_outlives_its_worker(nmt: Any, deployed: Any, worker: Any, small_recipe: dict[str, Any]) -> None:
    up, first = deployed, worker(deployed)
    run = up.start("retrain/quickstart", config=long(small_recipe, 600), until="train")
    training(up, nmt, run)
    first.kill()
    worker(up)
    assert up.wait(run, limit=_SECONDS_UNTIL_THE_END) == "COMPLETED", "the run goes on by itself"
    assert {status for _, status in up.tracked(run)} == {"FINISHED"}
    again = up.start("clean/quickstart", input=run)
    assert up.wait(again, limit=_SECONDS_UNTIL_THE_END) == "COMPLETED", "and another worker takes what comes next"
    up.end()


def saved_at(home: Any) -> int:
    """Update of the newest whole checkpoint; 0 if there is none."""
    return max((int(file.parent.name) for file in home.glob("artifacts/train/*/checkpoints/*/.metadata")), default=0)


def test_a_worker_that_is_ended_has_its_runs_save_and_end_first(
    nmt: Any, deployed: Any, worker: Any, small_recipe: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """As when a container is stopped, which ends with its worker."""
    up = deployed
    config = long(small_recipe, 1_000_000)
    config["train"]["checkpoint_every"] = 1_000_000
    runs, saved = [], [0]
    for _ in range(2):
        ended = worker(up)
        runs.append(up.start("retrain/quickstart", config=config, until="train"))
        training(up, nmt, runs[-1], after=saved[-1])
        family, start = [ended, *ended.children(recursive=True)], time.monotonic()
        assert len(family) > 3, "worker, run, torchrun, rank"
        ended.terminate()
        until_gone(family)
        with capsys.disabled():
            print(f"\n{time.monotonic() - start:.1f} s from SIGTERM until the worker and all of its runs have gone")
        assert engines(nmt.home) == []
        assert up.state(runs[-1]) == "CRASHED", "its place in the queue is free"
        assert dict(up.tracked(runs[-1]))["train"] == up.tracked(runs[-1])[0][1] == "KILLED"
        assert saved_at(nmt.home) > saved[-1], "saved at the end, and not because it was due"
        saved.append(saved_at(nmt.home))
    first = "(select min(m.step) from metrics m where m.run_uuid = r.run_uuid and m.key = 'train_loss')"
    assert dict(up.tracked(runs[1], first))["train"] > saved[1], "it goes on, and does not begin again"
    up.end()


def test_one_run_trains_at_a_time(nmt: Any, deployed: Any, worker: Any, small_recipe: dict[str, Any]) -> None:
    up = deployed
    worker(up)
    config = long(small_recipe, 400)
    first, second = (up.start("retrain/quickstart", config=config, until="train") for _ in range(2))
    training(up, nmt, first)
    assert (up.state(first), up.state(second)) == ("RUNNING", "SCHEDULED")
    assert [up.wait(run, limit=_SECONDS_UNTIL_THE_END) for run in (first, second)] == ["COMPLETED", "COMPLETED"]
    assert up.call(f"flow_runs/{second}")["start_time"] >= up.call(f"flow_runs/{first}")["end_time"]
    up.end()


def test_reconcile_closes_what_a_dead_machine_has_left(
    nmt: Any, deployed: Any, worker: Any, small_recipe: dict[str, Any]
) -> None:
    up, first = deployed, worker(deployed)
    config = long(small_recipe, 800)
    run = up.start("retrain/quickstart", config=config, until="train")
    training(up, nmt, run)
    kill_all([first, *engines(nmt.home)])
    assert up.state(run) == "RUNNING", "nobody is left who could say otherwise"
    assert {status for _, status in up.tracked(run)} == {"RUNNING", "FINISHED"}
    said = nmt("reconcile").stdout
    assert "is gone" in said and "2 runs closed" in said
    assert up.state(run) == "CRASHED"
    assert dict(up.tracked(run))["train"] == "KILLED"
    assert {status for _, status in up.tracked(run)} == {"KILLED", "FINISHED"}
    worker(up)
    again = up.start("retrain/quickstart", config=config, until="train")
    assert up.wait(again, limit=_SECONDS_UNTIL_THE_END) == "COMPLETED", "its place in the queue is free again"
    up.end()


def test_a_run_without_a_heartbeat_is_crashed_and_somebody_is_told(
    nmt: Any, deployed: Any, worker: Any, webhook: Any, small_recipe: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    up, first = deployed, worker(deployed)
    unscheduled(up, "reconcile/reconcile")
    run = up.start("retrain/quickstart", config=long(small_recipe, 100_000), until="train")
    training(up, nmt, run)
    heard_of(up, run)
    kill_all([first, *engines(nmt.home)])
    start = time.monotonic()
    worker(up)  # as on another machine: nobody there looks for processes of the first before the run is silent
    within = HEARTBEATS_MISSED * _HEARTBEAT_SECONDS
    assert up.wait(run, limit=within + _SECONDS_UNTIL_IT_IS_SURE) == "CRASHED"
    with capsys.disabled():
        print(f"\n{time.monotonic() - start:.0f} s from kill -9 until the run is Crashed")
    state = up.call(f"flow_runs/{run}")["state"]
    assert re.fullmatch(r"no heartbeat for \d+ s: its process is gone", state["message"])
    told = webhook.told_of(run)
    assert (told["flow"], told["state"], told["message"]) == ("retrain", "Crashed", state["message"])
    looked(up)
    assert {status for _, status in up.tracked(run)} == {"KILLED", "FINISHED"}, "MLflow has been told as well"
    up.end()


def unscheduled(up: Any, name: str) -> None:
    """Have a deployment run only when it is started: by its schedule it would now and then come in between."""
    deployment = up.deployment(name)
    for each in deployment["schedules"]:
        up.call(f"deployments/{deployment['id']}/schedules/{each['id']}", {"active": False}, "PATCH")
    assert [each["active"] for each in up.deployment(name)["schedules"]] == [False]
    ours = {
        "deployments": {"id": {"any_": [deployment["id"]]}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
    }
    while planned := up.call("flow_runs/filter", ours):  # by a scheduler that was at it in this very moment
        for each in planned:
            up.call(f"flow_runs/{each['id']}", method="DELETE")


def looked(up: Any) -> None:
    """Return when `reconcile` has ended wherever it was started."""
    ours = {"flows": {"name": {"any_": ["reconcile"]}}, "flow_runs": {"state": {"type": {"not_any_": ["SCHEDULED"]}}}}
    found = up.call("flow_runs/filter", ours)
    assert {up.wait(each["id"], limit=_SECONDS_UNTIL_IT_IS_SURE) for each in found} == {"COMPLETED"}


@pytest.fixture
def prefect_alone(nmt: Any, free_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Server]]:
    """Starts a Prefect server that may be killed, always at the same address."""
    nmt.home.mkdir(parents=True, exist_ok=True)
    for name in [name for name in os.environ if name.startswith(("PREFECT_", "NMT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(nmt.home / "prefect"))
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    # `nmt` finds it there, as it finds those of `nmt up`
    addresses = {"process": this_process(), "prefect": f"http://127.0.0.1:{free_port}/api", "mlflow": ""}
    (nmt.home / "servers.json").write_text(json.dumps(addresses))
    started: list[Server] = []

    def start() -> Server:
        settings = Settings.load({"NMT_HOME": str(nmt.home)})
        started.append(start_prefect(settings, free_port, kept_secret(settings.secret_file), embedded=False))
        started[-1].wait_until(f"http://127.0.0.1:{free_port}/api/health", timeout=patient(120))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def deserted(nmt: Any, prefect_alone: Callable[[], Server], ask: Any, worker: Any) -> Callable[..., tuple[Any, str]]:
    """Starts a training, has its server away for so many seconds, and gives the server that is back, and the run."""

    def begin(recipe: dict[str, Any], seconds: float) -> tuple[Any, str]:
        server = prefect_alone()
        nmt("deploy", "quickstart")
        up = ask(nmt)
        worker(up, "cpu")
        run = up.start("retrain/quickstart", config=recipe, until="train")
        training(up, nmt, run)
        heard_of(up, run)
        kill_all([psutil.Process(server.pid)])
        time.sleep(seconds)
        prefect_alone()
        return up, run

    return begin


def test_a_run_outwaits_a_server_that_is_killed(
    deserted: Callable[..., tuple[Any, str]], small_recipe: dict[str, Any]
) -> None:
    up, run = deserted(long(small_recipe, 600), _SECONDS_WITHOUT_A_SERVER)
    assert up.wait(run, limit=_SECONDS_UNTIL_THE_END) == "COMPLETED"
    assert {status for _, status in up.tracked(run)} == {"FINISHED"}
    again = up.start("clean/quickstart", input=run)
    assert up.wait(again, limit=_SECONDS_UNTIL_THE_END) == "COMPLETED", "the worker has outwaited it too"


def test_a_run_is_not_declared_dead_because_the_server_was(
    deserted: Callable[..., tuple[Any, str]], small_recipe: dict[str, Any]
) -> None:
    up, run = deserted(long(small_recipe, 1_000_000), _SECONDS_UNTIL_ALL_ARE_SILENT)
    # It is also started by the server, if that is back soon enough to remember for whom it had waited
    assert up.wait(up.start("reconcile/reconcile"), limit=_SECONDS_UNTIL_IT_IS_SURE) == "COMPLETED"
    looked(up)
    assert up.state(run) == "RUNNING"
    assert {status for _, status in up.tracked(run)} == {"RUNNING", "FINISHED"}
