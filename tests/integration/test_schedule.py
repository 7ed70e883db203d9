"""A schedule fires by itself. With a SQLAlchemy that does not fit, Prefect shows an active one and never fires it."""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

_SECONDS_TO_START = 120
_SECONDS_TO_FIRE = 90
_BUSY = 503
_STAGE = "download"


def call(url: str, body: Any = None) -> Any:
    """Ask a server, and read its JSON. Prefect on SQLite says 503 while the database is busy."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(20):
        try:
            with opener.open(request, timeout=30) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            if error.code != _BUSY:
                raise
            time.sleep(1)
    raise AssertionError(f"{url} is busy")


@pytest.fixture
def api(nmt: Any) -> Iterator[str]:
    """The Prefect API of `nmt up` in an empty home; whatever a test does, all of it ends."""
    # The scheduler looks at new schedules once a minute, which a test need not wait for
    process = nmt.start("up", PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS="2")
    deadline = time.monotonic() + _SECONDS_TO_START
    said = ""
    while "Ctrl-C" not in said:
        said += process.stdout.readline()
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, said
    family = [psutil.Process(process.pid)]
    try:
        family += family[0].children(recursive=True)
        yield json.loads((nmt.home / "servers.json").read_text())["prefect"]
        os.killpg(process.pid, signal.SIGINT)
        assert psutil.wait_procs(family, timeout=60)[1] == []
    finally:
        for member in family:
            if member.is_running():
                member.kill()
        process.communicate()


def scheduled_runs(api: str, deployment: str) -> list[dict[str, Any]]:
    """Flow runs of a deployment that a schedule made."""
    runs = call(f"{api}/flow_runs/filter", {"deployments": {"id": {"any_": [deployment]}}})
    return [run for run in runs if run["auto_scheduled"]]


@pytest.mark.timeout(400)
def test_a_schedule_fires_by_itself(api: str, nmt: Any) -> None:
    deployment = call(f"{api}/deployments/name/stage/{_STAGE}")
    config = deployment["parameters"]["config"] | {"corpus": {"toy": {"pairs": 1_000, "held_out": 10}}}
    schedule = {
        "active": True,
        "schedule": {"interval": 15, "timezone": "UTC"},
        "max_scheduled_runs": 3,
        "parameters": {"stage": _STAGE, "config": config},
    }
    made = call(f"{api}/deployments/{deployment['id']}/schedules", [schedule])
    assert [item["active"] for item in made] == [True]

    deadline = time.monotonic() + _SECONDS_TO_FIRE
    while not (runs := scheduled_runs(api, deployment["id"])):
        assert time.monotonic() < deadline, "the schedule is active, and no flow run appears"
        time.sleep(0.5)
    while not (done := [run for run in runs if run["state"]["type"] == "COMPLETED"]):
        assert time.monotonic() < deadline, [(run["state"]["name"], run["expected_start_time"]) for run in runs]
        time.sleep(0.5)
        runs = scheduled_runs(api, deployment["id"])
    assert done[0]["parameters"]["config"]["corpus"]["toy"]["pairs"] == 1_000
    assert list(nmt.home.glob("artifacts/download/*/manifest.json"))
