"""Cleanup of MLflow runs that nothing will close any more: a killed process leaves its runs RUNNING.

The owner of a run is in its tags: the Prefect flow run, its attempt (a retry keeps the flow run), and the process. A
run is closed if its flow run has ended, or if its process was on this machine and is gone. If that was the process of
the flow run's newest attempt, the flow run is marked as Crashed as well. Another attempt that is alive is left alone.
"""

from dataclasses import dataclass
from uuid import UUID

from mlflow.entities import Run, RunTag
from mlflow.tracking import MlflowClient
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from flows.runs.ownership import ATTEMPT_TAG, FLOW_RUN_TAG, PROCESS_TAG
from flows.runs.summary import Status
from flows.tracking.paging import read_all
from nmt_core.execution.processes import is_gone

_CLOSED_TAG = "nmt.closed_by"
_NOTE_TAG = "mlflow.note.content"
_PAGE = 500

_ENDS: dict[StateType, Status] = {
    StateType.COMPLETED: "FINISHED",
    StateType.FAILED: "FAILED",
    StateType.CRASHED: "KILLED",
    StateType.CANCELLED: "KILLED",
}
_HOLDS_A_PLACE = {StateType.RUNNING, StateType.CANCELLING}
"""States that only a process can end, and that occupy a place in a queue until then."""


@dataclass(frozen=True)
class Closed:
    """Result of checking one run."""

    run_id: str
    name: str
    status: str
    """New status of the run. Empty means that it was left alone."""
    why: str


def close_orphans(mlflow: MlflowClient, prefect: SyncPrefectClient, *, unknown: bool = False) -> list[Closed]:
    """Close the RUNNING runs that no live flow run owns, and return the result for each run that is not clearly alive.

    Args:
        mlflow: Client of the MLflow server with the runs.
        prefect: Client of the Prefect server that should have their flow runs.
        unknown: Also close runs whose flow run this server does not know. They may be alive under another server, such
            as the embedded one of `nmt run` on another machine.
    """
    by_owner: dict[str, list[Run]] = {}
    for run in _running(mlflow):
        if owner := run.data.tags.get(FLOW_RUN_TAG, ""):  # otherwise the run belongs to another program
            by_owner.setdefault(owner, []).append(run)
    done = []
    for owner, runs in by_owner.items():
        flow_run = _flow_run(prefect, owner)
        fates = [_fate(flow_run, run) for run in runs]
        if flow_run and _is_dead(flow_run, runs):
            message = f"{fates[0][1]}, found by reconcile"
            prefect.set_flow_run_state(flow_run.id, Crashed(message=message), force=True)
        for run, (status, why) in zip(runs, fates, strict=True):
            if why and not status and unknown:
                status = "KILLED"
            if status:
                _close(mlflow, run, status, why)
            if why:
                done.append(Closed(run.info.run_id, run.info.run_name, status, why))
    return done


def _running(mlflow: MlflowClient) -> list[Run]:
    """Return all running runs before the first one is closed, which would shift the pages."""
    experiments = [experiment.experiment_id for experiment in read_all(mlflow.search_experiments)]
    if not experiments:
        return []
    return read_all(mlflow.search_runs, experiments, "attributes.status = 'RUNNING'", max_results=_PAGE)


def _flow_run(prefect: SyncPrefectClient, owner: str) -> FlowRun | None:
    try:
        return prefect.read_flow_run(UUID(owner))
    except (ObjectNotFound, ValueError):
        return None


def _is_dead(flow_run: FlowRun, runs: list[Run]) -> bool:
    """Return True if Prefect considers a flow run running, but all processes of its newest attempt are gone.

    A new attempt that has no MLflow run yet is recognised by its number alone.
    """
    if not flow_run.state or flow_run.state.type not in _HOLDS_A_PLACE:
        return False
    attempts = [int(run.data.tags.get(ATTEMPT_TAG, "") or 0) for run in runs]
    if max(attempts) not in (0, flow_run.run_count):
        return False
    return all(is_gone(run.data.tags.get(PROCESS_TAG, "")) for run in runs)


def _fate(flow_run: FlowRun | None, run: Run) -> tuple[Status | str, str]:
    """Return the new status of a run, and the reason.

    An empty status means that the run is left alone, and an empty reason that it is alive.
    """
    if flow_run is None or flow_run.state is None:
        return "", "this Prefect server does not know its flow run"
    state = flow_run.state
    if state.type in _ENDS:
        return _ENDS[state.type], f"its flow run is {state.name}"
    process = run.data.tags.get(PROCESS_TAG, "")
    return ("KILLED", f"its process ({process}) is gone") if is_gone(process) else ("", "")


def _close(mlflow: MlflowClient, run: Run, status: str, why: str) -> None:
    note = "\n\n".join(filter(None, [run.data.tags.get(_NOTE_TAG, ""), f"Closed by reconcile: {why}."]))
    mlflow.log_batch(run.info.run_id, tags=[RunTag(_CLOSED_TAG, f"reconcile: {why}"), RunTag(_NOTE_TAG, note)])
    mlflow.set_terminated(run.info.run_id, status)
