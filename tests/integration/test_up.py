"""`nmt up`: both servers answer, a deployment runs, `nmt run` finds them, and Ctrl-C leaves nothing behind."""

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

_LIMIT = 120
_BUSY = 503


def call(url: str, body: dict[str, Any] | None = None) -> Any:
    """Ask a server, and read its JSON. Prefect on SQLite says 503 while the database is busy."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(20):
        try:
            with opener.open(request, timeout=30) as response:
                text = response.read().decode()
            return json.loads(text) if text.startswith(("{", "[")) else text
        except urllib.error.HTTPError as error:
            if error.code != _BUSY:
                raise
            time.sleep(1)
    raise AssertionError(f"{url} is busy")


@pytest.fixture
def family(finished: tuple[Any, dict[str, Any]]) -> Iterator[list[psutil.Process]]:
    """`nmt up` on the finished home, and all its processes; whatever a test does, they end."""
    nmt, _ = finished
    process = nmt.start("up")
    deadline = time.monotonic() + _LIMIT
    said = ""
    while "Ctrl-C" not in said:
        said += process.stdout.readline()
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
    parent = psutil.Process(process.pid)
    members = [parent, *parent.children(recursive=True)]
    yield members
    for member in members:
        if member.is_running():
            member.kill()
    process.communicate()


def wait_until_done(api: str, flow_run: str) -> str:
    """The state in which a flow run ends."""
    deadline = time.monotonic() + _LIMIT
    while time.monotonic() < deadline:
        state = call(f"{api}/flow_runs/{flow_run}")["state"]
        if state["type"] in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}:
            return str(state["type"])
        time.sleep(0.5)
    return "never"


@pytest.mark.timeout(400)
def test_up_serves_runs_and_ends(finished: tuple[Any, dict[str, Any]], family: list[psutil.Process]) -> None:
    nmt, summary = finished
    servers = json.loads((nmt.home / "servers.json").read_text())
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/api", servers["prefect"])
    assert call(f"{servers['prefect']}/health") is not None
    assert call(f"{servers['mlflow']}/health") == "OK"

    api = servers["prefect"]
    deployments = {item["name"]: item["id"] for item in call(f"{api}/deployments/filter", {})}
    assert {"quickstart", "clean", "register", "translate"} <= deployments.keys()
    body = {"parameters": {"config": summary["config"]}, "state": {"type": "SCHEDULED"}}
    flow_run = call(f"{api}/deployments/{deployments['quickstart']}/create_flow_run", body)
    parameters = {"stage": "clean", "config": summary["config"]}
    stage_run = call(
        f"{api}/deployments/{deployments['clean']}/create_flow_run",
        {"parameters": parameters, "state": {"type": "SCHEDULED"}},
    )
    assert wait_until_done(api, flow_run["id"]) == "COMPLETED"
    assert wait_until_done(api, stage_run["id"]) == "COMPLETED"

    from_here = nmt.run("--until", "clean")
    assert call(f"{api}/flow_runs/{from_here['prefect_flow_run_id']}")["state"]["type"] == "COMPLETED"
    links = call(f"{api}/artifacts/latest/filter", {})
    assert any(link["key"] == "mlflow-clean" and servers["mlflow"] in link["data"] for link in links)

    os.killpg(family[0].pid, signal.SIGINT)
    alive = psutil.wait_procs(family, timeout=60)[1]
    assert alive == []
    assert family[0].wait() in {130, None}
    assert not (nmt.home / "servers.json").exists()
