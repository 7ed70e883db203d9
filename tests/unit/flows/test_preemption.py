"""A run whose machines were taken away has not failed: nobody is told so, and Retry goes on with it."""

from collections.abc import Iterator

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.states import Scheduled

from flows.automations import zombies
from flows.preemption import preempted
from nmt_core.errors import BudgetError, PreemptedError

GONE = "train: stopped from outside after 70 updates, with a checkpoint: the same command goes on from there"


@pytest.fixture(scope="module")
def client(prefect_api: str) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


def newest_run(client: SyncPrefectClient) -> FlowRun:
    return max(client.read_flow_runs(), key=lambda run: str(run.created))


@flow(name="taken away", persist_result=False)
def taken_away(error: type[PreemptedError]) -> str:
    """Ends as `retrain` does when its training ends with this error."""
    try:
        raise error(GONE)
    except PreemptedError as caught:
        answer: str = preempted(caught)
        return answer


def test_the_run_is_preempted_and_may_be_tried_again(client: SyncPrefectClient) -> None:
    with pytest.raises(PreemptedError, match="stopped from outside after 70 updates") as caught:
        taken_away(PreemptedError)
    assert caught.value.exit_code == 75
    run = newest_run(client)
    assert run.state
    assert (run.state.type, run.state.name, run.state.message) == (StateType.CRASHED, "Preempted", GONE)
    answer = client.set_flow_run_state(run.id, Scheduled(name="AwaitingRetry"))  # what the UI's Retry does
    assert answer.status == SetStateStatus.ACCEPT


def test_a_spent_budget_is_somebodys_business(client: SyncPrefectClient) -> None:
    with pytest.raises(BudgetError):
        taken_away(BudgetError)
    run = newest_run(client)
    assert run.state
    assert (run.state.type, run.state.name) == (StateType.FAILED, "Failed")


def test_no_automation_takes_it_for_a_failure() -> None:
    """That of runs without a heartbeat waits for its end as for any other, and else would make it a crash."""
    assert "prefect.flow-run.Preempted" in zombies(30).trigger.expect  # type: ignore[union-attr]
