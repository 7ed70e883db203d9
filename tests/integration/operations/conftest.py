"""Means of an operator: a webhook that Prefect calls, workers that come and go, and runs that train meanwhile."""

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.curves import own_updates, saved_at
from support.until import until, until_gone

POOL = "other"
"""A work pool whose workers `nmt up` does not start."""
SECONDS_UNTIL_TRAINING = 300
_FINGERPRINT = "(select value from tags t where t.run_uuid = r.run_uuid and t.key = 'artifact.fingerprint')"
_UNDER_WAY = ["SCHEDULED", "PENDING", "RUNNING", "CANCELLING"]


class Webhook:
    """Server of a chat for Prefect: it accepts each message, and keeps it here."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        """Paths that were called, with their queries."""
        self.bodies: list[dict[str, Any]] = []
        """Messages in the order in which they were posted."""
        told = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # so `http.server` calls it
                told.paths.append(self.path)
                told.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/failures"

    def about(self, flow_run: str) -> list[dict[str, Any]]:
        """Return the messages about a flow run."""
        return [body for body in list(self.bodies) if body["flow_run"] == flow_run]

    def told_of(self, flow_run: str) -> dict[str, Any]:
        """Return the first message about a flow run, as soon as there is one."""
        return until(lambda: self.about(flow_run), lambda: f"no message: {self.bodies}")[0]


@pytest.fixture(scope="module")
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    thread = threading.Thread(target=webhook.server.serve_forever)
    thread.start()
    yield webhook
    webhook.server.shutdown()
    thread.join()
    webhook.server.server_close()


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """Kill processes and all their descendants with SIGKILL at one moment, so that no process sees another one die."""
    alive = [process for process in processes if process.is_running()]
    family = dict.fromkeys(member for each in alive for member in (each, *each.children(recursive=True)))
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                act(member)
    until_gone(family)


class Operator:
    """Start workers for a server, and follow the runs that they execute."""

    kill = staticmethod(kill_all)

    def __init__(self, up: Any, log: Path) -> None:
        self.up, self.nmt = up, up.nmt
        self.log = log
        self._workers: list[psutil.Process] = []

    def worker(self, pool: str = POOL) -> psutil.Process:
        """Start `nmt worker`, and return when the server knows of it."""
        server = {"PREFECT_API_URL": self.up.servers["prefect"], "PREFECT_WORKER_QUERY_SECONDS": "2"}
        before = self._polling(pool)
        process = self.nmt.start("worker", "--pool", pool, log=self.log, **server)
        self._workers.append(psutil.Process(process.pid))
        until(
            lambda: self._polling(pool) - before or process.poll() is not None,
            "the server does not know of the worker",
            every=0.5,
        )
        assert process.poll() is None, self.log.read_text()
        return self._workers[-1]

    def _polling(self, pool: str) -> set[str]:
        """Return the workers that have ever polled a pool."""
        return {each["name"] for each in self.up.call(f"work_pools/{pool}/workers/filter", {})}

    def engines(self) -> list[psutil.Process]:
        """Processes that run flows on this home."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if "prefect.engine" in process.cmdline() and process.environ().get("NMT_HOME") == str(self.nmt.home):
                    found.append(process)
        return found

    def machine_dies(self) -> None:
        """Kill all workers and their runs with SIGKILL."""
        kill_all([*self._workers, *self.engines()])

    def training_of(self, run: str) -> Path:
        """Return the folder of a run's training that is not finished."""
        fingerprint = dict(self.up.tracked(run, _FINGERPRINT)).get("train", "none")
        return Path(self.nmt.home / "artifacts" / "train" / f"{fingerprint}.partial")

    def wait_for_training(self, run: str, after: int = 0) -> None:
        """Return when a run trains, and is beyond an update."""

        def trains() -> bool:
            assert self.up.state(run) in ("SCHEDULED", "PENDING", "RUNNING"), self._story(run)
            return any(update > after for update in own_updates(self.training_of(run)))

        until(trains, lambda: str(self.up.call(f"flow_runs/{run}")["state"]), SECONDS_UNTIL_TRAINING, every=0.1)

    def saved_at(self, run: str) -> int:
        """Return the update of the newest complete checkpoint that a run's training has saved itself, or 0."""
        return saved_at(self.training_of(run))

    def wait_for_heartbeat(self, run: str) -> None:
        """Return when the server has received a heartbeat of a run."""
        ours = {"event": {"name": ["prefect.flow-run.heartbeat"]}, "resource": {"id": [f"prefect.flow-run.{run}"]}}
        until(lambda: self.up.call("events/filter", {"filter": ours})["events"], "no heartbeat", every=0.5)

    def _story(self, run: str) -> str:
        """Return the states that a run was in and the end of its log, which explain how it ended."""
        states = self.up.call(f"flow_run_states/?flow_run_id={run}")
        ours = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_DESC", "limit": 40}
        log = [f"{line['timestamp']} {line['message']}" for line in reversed(self.up.call("logs/filter", ours))]
        return "\n".join([*(f"{each['timestamp']} {each['name']}: {each['message']}" for each in states), *log])

    def wait_for_reconcile(self, seconds: float) -> None:
        """Return when every run of `reconcile` has ended."""
        started = {"state": {"type": {"not_any_": ["SCHEDULED"]}}}
        found = self.up.call("flow_runs/filter", {"flows": {"name": {"any_": ["reconcile"]}}, "flow_runs": started})
        assert {self.up.wait(each["id"], limit=seconds) for each in found} == {"COMPLETED"}

    def clear(self) -> None:
        """Kill all workers and runs, and free their slots in the queue, so that the next test begins with none."""
        self.machine_dies()
        body = {"state": {"type": "CANCELLED"}, "force": True}
        with contextlib.suppress(OSError):  # of a server that a failed test has left dead
            for run in self.up.call("flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": _UNDER_WAY}}}}):
                if not run["auto_scheduled"]:
                    self.up.call(f"flow_runs/{run['id']}/set_state", body)


@pytest.fixture
def operate(tmp_path: Path) -> Iterator[Callable[[Any], Operator]]:
    """Give an operator to a server. All processes that it starts end. Their output is shown if the test fails."""
    operators: list[Operator] = []

    def begin(up: Any) -> Operator:
        operators.append(Operator(up, tmp_path / "workers.log"))
        return operators[-1]

    yield begin
    for operator in operators:
        operator.clear()
        if operator.log.exists():  # else the test has failed before it started a worker
            print(operator.log.read_text())
