"""A run whose machines were taken away has not failed: no one is notified, and Retry resumes it."""

from uuid import uuid4

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.flow_engine import run_flow
from prefect.states import Scheduled

from flows.deployment.automations import silent_runs
from flows.runs.preemption import preempted
from nmt_core.errors import BudgetError, PreemptedError

GONE = "train: stopped from outside after 70 updates, with a checkpoint: the same command resumes from there"


@flow(name="taken away", persist_result=False)
def taken_away(attempts: list[str]) -> str:
    """End as `retrain` does when its training is preempted at the first attempt, or has spent its budget."""
    attempts.append("another")
    try:
        if attempts[0] == "budget":
            raise BudgetError(GONE)
        if len(attempts) < 3:
            raise PreemptedError(GONE)
    except PreemptedError as error:
        answer: str = preempted(error)
        return answer
    return "registered"


@pytest.fixture
def run(client: SyncPrefectClient) -> FlowRun:
    """Run of a deployment, which a worker would execute now."""
    deployment = client.create_deployment(client.create_flow(taken_away), "taken away")
    return client.create_flow_run_from_deployment(deployment)


def test_the_run_is_preempted_and_resumes_when_it_is_tried_again(client: SyncPrefectClient, run: FlowRun) -> None:
    attempts = {"attempts": ["preempted"]}
    with pytest.raises(PreemptedError, match="stopped from outside after 70 updates") as caught:
        run_flow(taken_away, run, attempts)
    assert caught.value.exit_code == 75
    ended = client.read_flow_run(run.id)
    assert ended.state
    assert (ended.state.type, ended.state.name, ended.state.message) == (StateType.CRASHED, "Preempted", GONE)
    answer = client.set_flow_run_state(run.id, Scheduled(name="AwaitingRetry"))  # what the UI's Retry does
    assert answer.status == SetStateStatus.ACCEPT
    assert run_flow(taken_away, client.read_flow_run(run.id), {"attempts": ["preempted", "another"]}) == "registered"
    assert client.read_flow_run(run.id).state_name == "Completed"


def test_a_spent_budget_is_a_failure(client: SyncPrefectClient, run: FlowRun) -> None:
    with pytest.raises(BudgetError):
        run_flow(taken_away, run, {"attempts": ["budget"]})
    ended = client.read_flow_run(run.id)
    assert (ended.state_type, ended.state_name) == (StateType.FAILED, "Failed")


def test_no_automation_takes_it_for_a_failure() -> None:
    """The automation for runs without a heartbeat waits for the end of this run as for any other.

    Otherwise it would declare the run silent.
    """
    assert "prefect.flow-run.Preempted" in silent_runs(uuid4()).trigger.expect  # type: ignore[union-attr]
