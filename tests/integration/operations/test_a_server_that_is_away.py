"""A Prefect server is killed while a run trains, and comes back: the run survives, and is not taken for dead."""

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from support.until import patient

from flows.servers.secret import kept_secret
from flows.servers.servers import Server, start_prefect
from flows.settings import Settings
from nmt_core.execution.processes import this_process

pytestmark = [pytest.mark.timeout(900), pytest.mark.cpu(50)]

Deserted = Callable[[dict[str, Any], float], tuple[Any, Any, str]]

_SECONDS_UNTIL_THE_END = 400
_SECONDS_WITHOUT_A_SERVER = 8
_SECONDS_UNTIL_ALL_ARE_SILENT = 100  # of a server that is away: it is back after the time of each run was up
# how long after that the server may take to notice, and `reconcile` to start and listen
_SECONDS_UNTIL_IT_IS_SURE = 180


def long(config: dict[str, Any], updates: int) -> dict[str, Any]:
    """A recipe that trains for a while."""
    return config | {"train": config["train"] | {"max_updates": updates}}


@pytest.fixture
def prefect_alone(nmt: Any, free_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Server]]:
    """Start a Prefect server that may be killed, always at the same address."""
    nmt.home.mkdir(parents=True, exist_ok=True)
    for name in [name for name in os.environ if name.startswith(("PREFECT_", "NMT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(nmt.home / "prefect"))
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    # `nmt` finds the server there, like the servers of `nmt up`
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
def deserted(nmt: Any, prefect_alone: Callable[[], Server], ask: Any, operate: Callable[[Any], Any]) -> Deserted:
    """Start a training, and stop its server for this many seconds.

    Returns the server that is back, its operator and the run.
    """

    def begin(recipe: dict[str, Any], seconds: float) -> tuple[Any, Any, str]:
        server = prefect_alone()
        nmt("deploy", "quickstart")
        up = ask(nmt)
        operator = operate(up)
        operator.worker("cpu")
        run = up.start("retrain/quickstart", config=recipe, until="train")
        operator.wait_for_training(run)
        operator.wait_for_heartbeat(run)
        operator.kill([psutil.Process(server.pid)])
        time.sleep(seconds)
        prefect_alone()
        return up, operator, run

    return begin


@pytest.mark.faults
def test_a_run_outwaits_a_server_that_is_killed(deserted: Deserted, small_recipe: dict[str, Any]) -> None:
    up, _, run = deserted(long(small_recipe, 600), _SECONDS_WITHOUT_A_SERVER)
    assert up.wait(run, limit=_SECONDS_UNTIL_THE_END) == "COMPLETED"
    assert {status for _, status in up.tracked(run)} == {"FINISHED"}
    again = up.start("clean/quickstart", input=run)
    assert up.wait(again, limit=_SECONDS_UNTIL_THE_END) == "COMPLETED", "the worker has outwaited it too"


@pytest.mark.nightly
def test_a_run_is_not_declared_dead_because_the_server_was(deserted: Deserted, small_recipe: dict[str, Any]) -> None:
    up, operator, run = deserted(long(small_recipe, 1_000_000), _SECONDS_UNTIL_ALL_ARE_SILENT)
    # It is also started by the server, if that is back soon enough to remember for whom it had waited
    assert up.wait(up.start("reconcile/reconcile"), limit=_SECONDS_UNTIL_IT_IS_SURE) == "COMPLETED"
    operator.wait_for_reconcile(_SECONDS_UNTIL_IT_IS_SURE)
    assert up.state(run) == "RUNNING"
    assert {status for _, status in up.tracked(run)} - {"FINISHED"} == {"RUNNING"}, "stages that were made have ended"
