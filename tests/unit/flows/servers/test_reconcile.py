"""MLflow runs without an owner are closed, and no others."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import psutil
import pytest
from mlflow.tracking import MlflowClient
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import State
from prefect.states import AwaitingRetry, Cancelled, Cancelling, Completed, Crashed, Failed, Running
from support.until import until

from flows.runs.ownership import ATTEMPT_TAG, FLOW_RUN_TAG, PROCESS_TAG
from flows.servers.reconcile import close_orphans
from nmt_core.execution.processes import this_process


@flow
def nothing() -> None: ...


@pytest.fixture(scope="module")
def made_database(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"
    MlflowClient(uri).search_experiments()
    return uri


@pytest.fixture
def mlflow(made_database: str) -> Iterator[MlflowClient]:
    client = MlflowClient(made_database)
    yield client
    for run in client.search_runs(["0"]):
        client.delete_run(run.info.run_id)


def child() -> tuple[subprocess.Popen[bytes], str]:
    """Process that waits, and its name."""
    code = "from nmt_core.execution.processes import this_process; print(this_process(), flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    return process, process.stdout.readline().decode().strip()


@pytest.fixture
def dead_process() -> str:
    """The name of a process that has ended."""
    process, name = child()
    process.communicate(b"\n")
    return name


def tracked(mlflow: MlflowClient, prefect: SyncPrefectClient, state: State | None, process: str = "") -> str:
    """Make a RUNNING run, and its flow run in some state. Without a state, Prefect knows no such flow run."""
    owner = prefect.create_flow_run(nothing, state=state).id if state else uuid4()
    tags = {FLOW_RUN_TAG: str(owner), PROCESS_TAG: process, "mlflow.note.content": "A recipe."}
    run_id: str = mlflow.create_run("0", tags=tags).info.run_id
    return run_id


@pytest.mark.parametrize(
    ("state", "status"),
    [(Completed(), "FINISHED"), (Failed(), "FAILED"), (Cancelled(), "KILLED"), (Crashed(), "KILLED")],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_run_ends_as_its_flow_run_did(
    mlflow: MlflowClient, prefect: SyncPrefectClient, state: State, status: str
) -> None:
    run_id = tracked(mlflow, prefect, state)
    (closed,) = close_orphans(mlflow, prefect)
    assert (closed.run_id, closed.status) == (run_id, status)
    run = mlflow.get_run(run_id)
    assert run.info.status == status
    assert run.info.end_time
    note = run.data.tags["mlflow.note.content"]
    assert note.startswith("A recipe.") and f"Closed by reconcile: its flow run is {state.name}." in note
    assert close_orphans(mlflow, prefect) == []


def test_a_live_run_is_left_alone(mlflow: MlflowClient, prefect: SyncPrefectClient) -> None:
    here = tracked(mlflow, prefect, Running(), this_process())
    elsewhere = tracked(mlflow, prefect, Running(), "another-machine 1 1")
    no_name = tracked(mlflow, prefect, Running())
    assert close_orphans(mlflow, prefect, unknown=True) == []
    assert {mlflow.get_run(run).info.status for run in (here, elsewhere, no_name)} == {"RUNNING"}


def test_a_run_whose_process_is_gone_is_closed_and_prefect_told(
    mlflow: MlflowClient, prefect: SyncPrefectClient, dead_process: str
) -> None:
    run_id = tracked(mlflow, prefect, Running(), dead_process)
    (closed,) = close_orphans(mlflow, prefect)
    assert closed.status == "KILLED"
    assert "is gone" in closed.why
    owner = mlflow.get_run(run_id).data.tags[FLOW_RUN_TAG]
    state = prefect.read_flow_run(owner).state  # type: ignore[arg-type]
    assert state and state.is_crashed()


def test_a_zombie_is_gone(mlflow: MlflowClient, prefect: SyncPrefectClient) -> None:
    process, name = child()
    tracked(mlflow, prefect, Running(), name)
    assert close_orphans(mlflow, prefect) == []
    process.kill()
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    assert [closed.status for closed in close_orphans(mlflow, prefect)] == ["KILLED"]
    process.communicate()


def test_a_number_that_another_process_has_by_now_does_not_deceive(
    mlflow: MlflowClient, prefect: SyncPrefectClient
) -> None:
    host, number, start = this_process().split(" ")
    boot, _, ticks = start.partition("/")
    tracked(mlflow, prefect, Running(), f"{host} {number} {boot}/{int(ticks) - 1}")
    assert [closed.status for closed in close_orphans(mlflow, prefect)] == ["KILLED"]


def test_a_process_keeps_its_name_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    name = this_process()
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: 0.0)
    assert this_process() == name


def attempt(mlflow: MlflowClient, owner: UUID, number: int, process: str) -> str:
    """A RUNNING run of one attempt at a flow run."""
    tags = {FLOW_RUN_TAG: str(owner), ATTEMPT_TAG: str(number), PROCESS_TAG: process}
    run_id: str = mlflow.create_run("0", tags=tags).info.run_id
    return run_id


@pytest.fixture
def retried(prefect: SyncPrefectClient) -> UUID:
    """Make a flow run whose first process was killed, and which was retried."""
    run = prefect.create_flow_run(nothing).id
    for state in (Running(), Crashed(), AwaitingRetry(), Running()):
        prefect.set_flow_run_state(run, state, force=True)
    assert prefect.read_flow_run(run).run_count == 2
    return run


def state_of(prefect: SyncPrefectClient, run: UUID) -> str:
    state = prefect.read_flow_run(run).state
    assert state
    return state.name


def test_a_retry_that_lives_is_left_alone_and_what_was_before_it_closed(
    mlflow: MlflowClient, prefect: SyncPrefectClient, dead_process: str, retried: UUID
) -> None:
    stale = attempt(mlflow, retried, 1, dead_process)
    alive = attempt(mlflow, retried, 2, this_process())
    assert [(closed.run_id, closed.status) for closed in close_orphans(mlflow, prefect)] == [(stale, "KILLED")]
    assert mlflow.get_run(alive).info.status == "RUNNING"
    assert state_of(prefect, retried) == "Running"


def test_a_retry_that_mlflow_does_not_know_yet_is_left_alone(
    mlflow: MlflowClient, prefect: SyncPrefectClient, dead_process: str, retried: UUID
) -> None:
    stale = attempt(mlflow, retried, 1, dead_process)
    assert [closed.run_id for closed in close_orphans(mlflow, prefect)] == [stale]
    assert state_of(prefect, retried) == "Running"
    attempt(mlflow, retried, 2, dead_process)
    assert [closed.status for closed in close_orphans(mlflow, prefect)] == ["KILLED"]
    assert state_of(prefect, retried) == "Crashed", "now the newest attempt is gone as well"


@pytest.mark.parametrize(("state", "name"), [(AwaitingRetry(), "AwaitingRetry"), (Cancelling(), "Crashed")])
def test_only_a_flow_run_that_runs_is_called_crashed(
    mlflow: MlflowClient, prefect: SyncPrefectClient, dead_process: str, state: State, name: str
) -> None:
    """A run that waits for its retry has no process. A run that is being cancelled would keep its slot forever."""
    run_id = tracked(mlflow, prefect, state, dead_process)
    assert [(closed.run_id, closed.status) for closed in close_orphans(mlflow, prefect)] == [(run_id, "KILLED")]
    assert state_of(prefect, UUID(mlflow.get_run(run_id).data.tags[FLOW_RUN_TAG])) == name


def test_runs_of_another_server_are_closed_only_if_asked_for(mlflow: MlflowClient, prefect: SyncPrefectClient) -> None:
    run_id = tracked(mlflow, prefect, None)
    (left,) = close_orphans(mlflow, prefect)
    assert (left.status, mlflow.get_run(run_id).info.status) == ("", "RUNNING")
    (closed,) = close_orphans(mlflow, prefect, unknown=True)
    assert (closed.status, mlflow.get_run(run_id).info.status) == ("KILLED", "KILLED")


def test_runs_of_others_are_none_of_our_business(mlflow: MlflowClient, prefect: SyncPrefectClient) -> None:
    run_id = mlflow.create_run("0").info.run_id
    assert close_orphans(mlflow, prefect, unknown=True) == []
    assert mlflow.get_run(run_id).info.status == "RUNNING"


def test_more_runs_than_fit_on_a_page(
    mlflow: MlflowClient, prefect: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("flows.servers.reconcile._PAGE", 2)
    runs = [tracked(mlflow, prefect, Completed()) for _ in range(5)]
    assert sorted(closed.run_id for closed in close_orphans(mlflow, prefect)) == sorted(runs)
