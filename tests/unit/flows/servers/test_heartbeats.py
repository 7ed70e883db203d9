"""A run whose machine is gone is ended, and a living run is not: after the server was away, all of them look silent."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import State
from prefect.states import Cancelling, Completed, Running
from support.until import until

from flows.servers.heartbeats import HEARTBEAT, HEARTBEATS_MISSED, end_silent

SECONDS = 200
"""Seconds between heartbeats: a run that sent one when the test began is not silent at the end of the test."""
LONG_AGO = HEARTBEATS_MISSED * SECONDS + 1


@flow
def nothing() -> None: ...


def forget_runs(client: SyncPrefectClient) -> None:
    """Forget the runs of other tests too, which have left runs without a process on the shared server."""
    for run in client.read_flow_runs():
        client.delete_flow_run(run.id)


@pytest.fixture
def prefect(prefect_api: str) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        forget_runs(client)
        yield client
        forget_runs(client)


def beats(prefect: SyncPrefectClient, run: UUID, seconds_ago: float = 0) -> None:
    """Send a heartbeat, as the process of a run does, and wait until the server shows it."""
    event = {
        "id": str(uuid4()),
        "event": HEARTBEAT,
        "occurred": (datetime.now(UTC) - timedelta(seconds=seconds_ago)).isoformat(),
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run}"},
    }
    prefect.request("POST", "/events", json=[event]).raise_for_status()
    ours = {"event": {"name": [HEARTBEAT]}, "resource": {"id": [f"prefect.flow-run.{run}"]}}

    def is_shown() -> bool:
        found = prefect.request("POST", "/events/filter", json={"filter": ours}).json()["events"]
        return event["id"] in {each["id"] for each in found}

    until(is_shown, every=0.2)


@pytest.fixture
def started(prefect: SyncPrefectClient) -> Callable[..., UUID]:
    """Make a run in some state, whose last heartbeat was some time ago."""

    def start(state: State[Any], seconds_ago: float | None) -> UUID:
        run = prefect.create_flow_run(nothing, state=state).id
        if seconds_ago is not None:
            beats(prefect, run, seconds_ago)
        return run

    return start


def state_of(prefect: SyncPrefectClient, run: UUID) -> str:
    state = prefect.read_flow_run(run).state
    assert state
    return state.name


def test_who_is_silent_is_listened_to_and_then_ended(prefect: SyncPrefectClient, started: Callable[..., UUID]) -> None:
    gone, cancelled = started(Running(), LONG_AGO), started(Cancelling(), LONG_AGO)
    alive, ended = started(Running(), LONG_AGO), started(Running(), LONG_AGO)
    heard, never, over = started(Running(), 0), started(Running(), None), started(Completed(), LONG_AGO)
    said = []

    def say(line: str) -> None:
        said.append(line)
        if "waiting" in line:  # now one is heard of again, and another ends
            beats(prefect, alive)
            prefect.set_flow_run_state(ended, Completed())

    names = {prefect.read_flow_run(run).name for run in (gone, cancelled)}
    assert set(end_silent(prefect, say, SECONDS, clock=count(step=SECONDS).__next__)) == names
    assert said[0] == "4 runs without a heartbeat: waiting 300 s for another one"
    assert {line.split(" is ")[0] for line in said[1:]} == names
    assert [state_of(prefect, run) for run in (gone, cancelled)] == ["Crashed", "Cancelled"]
    assert [state_of(prefect, run) for run in (alive, heard, never)] == ["Running"] * 3
    assert [state_of(prefect, run) for run in (ended, over)] == ["Completed"] * 2
    message = prefect.read_flow_run(gone).state.message  # type: ignore[union-attr]
    assert message and message.startswith("no heartbeat for ") and message.endswith(" s: its process is gone")


def test_reconcile_waits_for_no_heartbeat_without_need(
    prefect: SyncPrefectClient, started: Callable[..., UUID]
) -> None:
    started(Running(), 0)
    said: list[str] = []
    assert end_silent(prefect, said.append, SECONDS) == []
    assert said == []
