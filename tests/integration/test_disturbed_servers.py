"""Worker killed, machine gone, server killed, while a run trains: what is alive goes on; what is dead is said to be.

The servers are those of `nmt up` or, where one of them is killed, started one by one; workers are `nmt worker`.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from flows.automations import HEARTBEATS_MISSED
from flows.servers import Server, free_port, start_prefect
from flows.settings import Settings

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

_SECONDS_UNTIL_TRAINING = 150
_SECONDS_WITHOUT_A_SERVER = 8
_HEARTBEAT_SECONDS = 30


def training(up: Any, home: Any, run: str) -> None:
    """Return when a run trains."""
    deadline = time.monotonic() + _SECONDS_UNTIL_TRAINING
    while not any("train_loss" in file.read_text() for file in home.glob("artifacts/train/*.partial/metrics.jsonl")):
        assert time.monotonic() < deadline, up.call(f"flow_runs/{run}")["state"]
        time.sleep(0.1)


def engines(home: Any) -> list[psutil.Process]:
    """Processes that run flows on this home."""
    found = []
    for process in psutil.process_iter():
        try:
            if "prefect.engine" in process.cmdline() and process.environ().get("NMT_HOME") == str(home):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def kill_all(processes: list[psutil.Process]) -> None:
    """kill -9 of processes and all their descendants, at one moment."""
    family = [member for each in processes for member in (each, *each.children(recursive=True))]
    for member in family:
        member.suspend()
    for member in family:
        member.kill()
    psutil.wait_procs(family, timeout=30)


@pytest.fixture
def worker(nmt: Any) -> Iterator[Callable[[Any, str], psutil.Process]]:
    """Starts `nmt worker` for a pool; all of them end."""
    started: list[psutil.Process] = []

    def start(up: Any, pool: str) -> psutil.Process:
        process = nmt.start(
            "worker", "--pool", pool, PREFECT_API_URL=up.servers["prefect"], PREFECT_WORKER_QUERY_SECONDS="2"
        )
        started.append(psutil.Process(process.pid))
        return started[-1]

    yield start
    for each in started:
        if each.is_running():
            kill_all([each])
    kill_all(engines(nmt.home))


def long(config: dict[str, Any], updates: int) -> dict[str, Any]:
    """A recipe that trains for a while."""
    return config | {"train": config["train"] | {"max_updates": updates}}


def test_a_run_outlives_its_worker(nmt: Any, start_up: Any, worker: Any, small_recipe: dict[str, Any]) -> None:
    up = start_up(nmt)
    nmt("deploy", "quickstart", "--pool", "other", PREFECT_API_URL=up.servers["prefect"])
    first = worker(up, "other")
    run = up.start("retrain/quickstart", config=long(small_recipe, 600), until="train")
    training(up, nmt.home, run)
    first.kill()
    worker(up, "other")
    assert up.wait(run, limit=200) == "COMPLETED", "the run goes on by itself"
    again = up.start("clean/quickstart", input=run)
    assert up.wait(again) == "COMPLETED", "and another worker takes what comes next"
    up.end()


def test_reconcile_closes_what_a_dead_machine_has_left(
    nmt: Any, start_up: Any, worker: Any, small_recipe: dict[str, Any]
) -> None:
    up = start_up(nmt)
    nmt("deploy", "quickstart", "--pool", "other", PREFECT_API_URL=up.servers["prefect"])
    config = long(small_recipe, 800)
    run = _killed_run(up, nmt, worker, config)
    assert up.state(run) == "RUNNING"
    assert {status for _, status in up.tracked(run)} == {"RUNNING", "FINISHED"}
    said = nmt("reconcile").stdout
    assert "is gone" in said and "2 runs closed" in said
    assert up.state(run) == "CRASHED"
    assert {status for _, status in up.tracked(run)} == {"KILLED", "FINISHED"}
    worker(up, "other")
    again = up.start("retrain/quickstart", config=config, until="train")
    assert up.wait(again, limit=200) == "COMPLETED", "the queue has a place again, and training goes on"
    up.end()


def test_a_run_without_a_heartbeat_is_crashed(
    nmt: Any, start_up: Any, worker: Any, small_recipe: dict[str, Any]
) -> None:
    up = start_up(nmt)
    nmt("deploy", "quickstart", "--pool", "other", PREFECT_API_URL=up.servers["prefect"])
    run = _killed_run(up, nmt, worker, long(small_recipe, 800), _HEARTBEAT_SECONDS + 5)
    start = time.monotonic()
    assert up.wait(run, limit=(HEARTBEATS_MISSED + 3) * _HEARTBEAT_SECONDS) == "CRASHED"
    print(f"{time.monotonic() - start:.0f} s until a run that was killed is Crashed")
    assert "no heartbeat" in up.call(f"flow_runs/{run}")["state"]["message"]
    assert "2 runs closed" in nmt("reconcile").stdout
    up.end()


def _killed_run(up: Any, nmt: Any, worker: Any, config: dict[str, Any], seconds: float = 0) -> str:
    """A run that was killed with its worker while it trained, at the earliest after so many seconds."""
    first = worker(up, "other")
    start = time.monotonic()
    run: str = up.start("retrain/quickstart", config=config, until="train")
    training(up, nmt.home, run)
    time.sleep(max(0.0, seconds - (time.monotonic() - start)))
    kill_all([first, *engines(nmt.home)])
    return run


@pytest.fixture
def prefect_alone(nmt: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Server]]:
    """Starts a Prefect server that may be killed, always at the same address."""
    nmt.home.mkdir(parents=True)
    port = free_port()
    for name in [name for name in os.environ if name.startswith(("PREFECT_", "NMT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(nmt.home / "prefect"))
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    # `nmt` finds it there, as it finds those of `nmt up`
    addresses = {"pid": os.getpid(), "prefect": f"http://127.0.0.1:{port}/api", "mlflow": ""}
    (nmt.home / "servers.json").write_text(json.dumps(addresses))
    started: list[Server] = []

    def start() -> Server:
        started.append(start_prefect(Settings.load({"NMT_HOME": str(nmt.home)}), port, embedded=False))
        started[-1].wait_until(f"http://127.0.0.1:{port}/api/health")
        return started[-1]

    yield start
    for each in started:
        each.stop()


def test_a_run_outwaits_a_server_that_is_killed(
    nmt: Any, prefect_alone: Callable[[], Server], ask: Any, worker: Any, small_recipe: dict[str, Any]
) -> None:
    server = prefect_alone()
    nmt("deploy", "quickstart")
    up = ask(nmt)
    worker(up, "cpu")
    run = up.start("retrain/quickstart", config=long(small_recipe, 600), until="train")
    training(up, nmt.home, run)
    kill_all([psutil.Process(server.pid)])
    time.sleep(_SECONDS_WITHOUT_A_SERVER)
    prefect_alone()
    assert up.wait(run, limit=250) == "COMPLETED"
    assert {status for _, status in up.tracked(run)} == {"FINISHED"}
    again = up.start("clean/quickstart", input=run)
    assert up.wait(again) == "COMPLETED", "the worker has outwaited it too"
