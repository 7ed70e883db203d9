"""Measure orchestration: the seconds of a retraining of ten stages that are not the work of a stage, part by part.

    .venv/bin/python benchmarks/orchestration.py [--times N] [--home NMT_HOME]

Runs the small recipe of the integration tests once, so that everything is made. The time of a stage in MLflow, less the
time of its work in its manifest, is the time around it. `register`, which has no manifest, is shown as a whole. Then
the recipe runs again, N times from the command line and N times as a deployment of `nmt up`, where a Prefect worker
starts a process for each run. What remains of a reused stage is Prefect's task, MLflow's run, and the look at the
artifact. The median run is shown, part by part.
"""

import argparse
import importlib.util
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ENDS = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
ALLOWED_SECONDS = 20

Parts = dict[str, float]
"""Seconds by who spent them, in the order of time."""


def main() -> None:
    """Run, print, fail if it took longer than allowed."""
    parser = argparse.ArgumentParser(description="Seconds that orchestration takes.")
    parser.add_argument("--times", type=int, default=3, help="how many runs of each kind (3)")
    parser.add_argument("--home", type=Path, help="NMT_HOME of an earlier call, so that nothing is made anew")
    arguments = parser.parse_args()
    home = (arguments.home or Path(tempfile.mkdtemp(prefix="nmt-orchestration-"))).absolute()
    home.mkdir(parents=True, exist_ok=True)
    first, made = from_the_command_line(home)
    if made:
        show("nmt run where nothing is made yet", [first])
    by_command = [all_reused(*from_the_command_line(home)) for _ in range(arguments.times)]
    by_worker = as_deployments(home, arguments.times)
    show("nmt run", by_command)
    show("a deployment of nmt up", by_worker)
    worst = max(sum(parts.values()) for parts in [*by_command, *by_worker])
    if worst > ALLOWED_SECONDS:
        sys.exit(f"{worst:.1f} s: more than {ALLOWED_SECONDS}")


def from_the_command_line(home: Path) -> tuple[Parts, list[str]]:
    """Run `nmt run`, and return its times from the start of its process to the end, and the stages that it made."""
    began = time.time()
    done = nmt(home, "run", *recipe(), "--json").communicate()
    ended = time.time()
    summary = json.loads(done[0].splitlines()[-1])
    return parts_of(home, summary["prefect_flow_run_id"], began, ended)


def as_deployments(home: Path, times: int) -> list[Parts]:
    """Return the times of runs that a worker starts, from the request to the end of the flow run."""
    up = nmt(home, "up")
    assert up.stdout
    try:
        while "Ctrl-C" not in up.stdout.readline():
            if up.poll() is not None:
                sys.exit(f"nmt up ended: {up.communicate()}")
        api = json.loads((home / "servers.json").read_text())["prefect"]
        return [as_a_deployment(home, api) for _ in range(times)]
    finally:
        os.killpg(up.pid, signal.SIGINT)
        up.communicate()


def as_a_deployment(home: Path, api: str) -> Parts:
    """Request a run of a deployment, and return its times."""
    newest = max(home.glob("runs/*/summary.json"), key=lambda file: file.stat().st_mtime)
    config = json.loads(newest.read_text())["config"]
    deployment = call(f"{api}/deployments/name/retrain/quickstart")
    began = time.time()
    body = {"parameters": {"config": config}, "state": {"type": "SCHEDULED"}}
    run = call(f"{api}/deployments/{deployment['id']}/create_flow_run", body)["id"]
    while (state := call(f"{api}/flow_runs/{run}")["state"])["type"] not in ENDS:
        time.sleep(0.1)
    if state["type"] != "COMPLETED":
        sys.exit(f"the run is {state['name']}: {state['message']}")
    return all_reused(*parts_of(home, run, began, time.time()))


def parts_of(home: Path, flow_run: str, began: float, ended: float) -> tuple[Parts, list[str]]:
    """Return the time before, in and after the stages, by their MLflow runs, and the stages that were made now.

    The work of a stage that was made now is left out.
    """
    query = """
    select r.name, r.start_time / 1e3, r.end_time / 1e3, reused.value, made.value from runs r
    join tags owner on owner.run_uuid = r.run_uuid and owner.key = 'prefect.flow_run_id' and owner.value = ?
    join tags reused on reused.run_uuid = r.run_uuid and reused.key = 'artifact.reused'
    join tags made on made.run_uuid = r.run_uuid and made.key = 'artifact.fingerprint' order by r.start_time
    """
    with sqlite3.connect(home / "mlflow.db") as database:
        stages = database.execute(query, (flow_run,)).fetchall()
    parts = {"processes, imports, servers": stages[0][1] - began}
    for number, (name, start, _, reused, fingerprint) in enumerate(stages):
        end = stages[number + 1][1] if number + 1 < len(stages) else stages[-1][2]
        parts[name] = end - start - (0 if reused == "true" else seconds_of_work(home, name, fingerprint))
    parts["after the last stage"] = ended - stages[-1][2]
    return parts, [name for name, _, _, reused, _ in stages if reused != "true"]


def seconds_of_work(home: Path, stage: str, fingerprint: str) -> float:
    """Return the seconds of a stage in its manifest, or 0 for `register`, which is no stage of the library."""
    manifest = home / "artifacts" / stage / fingerprint / "manifest.json"
    return float(json.loads(manifest.read_text())["seconds"]) if manifest.is_file() else 0.0


def all_reused(parts: Parts, made: list[str]) -> Parts:
    """Return the times of a run, which must have made nothing."""
    if made:
        sys.exit(f"not reused, but made now: {', '.join(made)}: this run measured nothing")
    return parts


def show(kind: str, runs: list[Parts]) -> None:
    """Print the median run."""
    median = sorted(runs, key=lambda parts: sum(parts.values()))[len(runs) // 2]
    print(f"\n| {kind}: median of {len(runs)} | seconds |\n| --- | ---: |")
    for name, seconds in median.items():
        print(f"| {name} | {seconds:.2f} |")
    print(f"| **in all** | **{sum(median.values()):.2f}** |", flush=True)


def recipe() -> list[str]:
    """Return the small recipe of the integration tests, as arguments."""
    file = Path(__file__).parents[1] / "tests" / "integration" / "conftest.py"
    sys.path.append(str(file.parents[1]))  # where its helpers are
    spec = importlib.util.spec_from_file_location("integration", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look for it there
    spec.loader.exec_module(module)
    arguments: list[str] = module.small()
    return arguments


def nmt(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a command in a process group of its own."""
    command = [sys.executable, "-c", "from flows.cli.app import main; main()", *arguments]
    environment = os.environ | {"NMT_HOME": str(home)}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )


def call(url: str, body: Any = None) -> Any:
    """Return the JSON with which Prefect answers a request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as response:
        return json.loads(response.read())


if __name__ == "__main__":
    main()
