"""The automation for lost runs starts `reconcile` for a run that falls silent, and for none that has ended."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.states import Completed, Running
from support.homes import copy
from support.until import until

from flows.deployment import automations
from flows.deployment.automations import silent_runs
from flows.maintenance import reconcile
from flows.servers.heartbeats import ENDED, HEARTBEAT, HEARTBEATS_MISSED, say_the_end, says_its_end
from flows.servers.secret import new_secret
from flows.servers.servers import held_port, start_prefect
from flows.settings import Settings
from flows.stages import STAGE_FLOWS
from flows.watch import watch

HEARTBEATS_ON_THEIR_WAY = 40
SECONDS_OF_SILENCE = 12  # Prefect takes no fewer than ten


@pytest.fixture
def client(tmp_path: Path, prefect_database: Path) -> Iterator[SyncPrefectClient]:
    """Client of a full server. An embedded one fires no automations."""
    home = tmp_path / "home"
    copy(prefect_database.parent, home / "prefect")
    secret = new_secret()
    with held_port() as port:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PREFECT_HOME", str(home / "prefect"))
            patch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
            server = start_prefect(Settings.load({"NMT_HOME": str(home)}), port, secret, embedded=False)
        api = f"http://127.0.0.1:{port}/api"
        server.wait_until(f"{api}/health")
        with temporary_settings({PREFECT_API_URL: api, PREFECT_API_AUTH_STRING: secret}):
            with get_client(sync_client=True) as client:
                yield client
            for background in (EventsWorker, APILogWorker):  # what they hold belongs to this server
                background.drain_all(timeout=5)
        server.stop()


@flow
def short() -> None: ...


@pytest.fixture
def looked_after(client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """Deployment that replaces `reconcile`. The automation starts it for runs that have been silent for this long."""
    monkeypatch.setattr(automations, "heartbeat_seconds", lambda: SECONDS_OF_SILENCE // HEARTBEATS_MISSED)
    deployment = client.create_deployment(client.create_flow(short), name="looks")
    automations.install(client, [silent_runs(deployment)])
    return deployment


def started(client: SyncPrefectClient, deployment: UUID) -> int:
    """Return how often the automation has fired."""
    ours = DeploymentFilter(id=DeploymentFilterId(any_=[deployment]))
    return len(client.read_flow_runs(deployment_filter=ours))


def heartbeat(run: UUID) -> None:
    """Send a heartbeat, as a run does."""
    emit_event(event=HEARTBEAT, resource={"prefect.resource.id": f"prefect.flow-run.{run}"}, occurred=datetime.now(UTC))


def last_events(client: SyncPrefectClient, run: UUID) -> dict[str, dict[str, datetime]]:
    """Return the time of the last event of each kind of a run, and the time when the server received it."""
    about = {"resource": {"id": [f"prefect.flow-run.{run}"]}}
    page = client.request("POST", "/events/filter", json={"filter": about, "limit": 50}).json()
    events = sorted(page["events"], key=lambda event: event["received"])
    times = ("occurred", "received")
    return {event["event"]: {time: datetime.fromisoformat(event[time]) for time in times} for event in events}


def said_in_time(client: SyncPrefectClient, run: UUID) -> bool:
    """Return True if the server heard of the end before it could declare the run silent.

    On a busy machine it may not.
    """
    until(lambda: last_events(client, run).keys() >= {HEARTBEAT, ENDED}, "the end was not reported")
    last = last_events(client, run)
    return (last[ENDED]["received"] - last[HEARTBEAT]["occurred"]).total_seconds() < SECONDS_OF_SILENCE - 1


@pytest.mark.slow
def test_a_heartbeat_that_comes_after_the_end_starts_nothing(client: SyncPrefectClient, looked_after: UUID) -> None:
    runs = [client.create_flow_run(short, state=Running()) for _ in range(5)]
    for run in runs:
        client.set_flow_run_state(run.id, Completed())
        heartbeat(run.id)  # it was on its way
    for run in runs:  # Prefect handles two events at once, and may swap events of one moment
        until(lambda: HEARTBEAT in last_events(client, run.id))  # noqa: B023  # it is called at once
        say_the_end(short, run, Completed())
    late = sum(not said_in_time(client, run.id) for run in runs)
    lost = client.create_flow_run(short, state=Running())
    heartbeat(lost.id)
    until(lambda: started(client, looked_after), "the automation does not fire for a run that falls silent")
    for _ in range(2):  # the runs that ended before have had twice the time
        heartbeat(client.create_flow_run(short, state=Running()).id)
        before = started(client, looked_after)
        until(lambda: started(client, looked_after) > before)  # noqa: B023  # it is called at once
    assert 3 <= started(client, looked_after) <= 3 + late, "once for each that fell silent"


def test_all_flows_say_their_end() -> None:
    for each in (*STAGE_FLOWS.values(), reconcile, watch):
        hooks = (each.on_completion_hooks, each.on_failure_hooks, each.on_cancellation_hooks, each.on_crashed_hooks)
        assert all(say_the_end in registered for registered in hooks), each.name


def test_a_run_that_ends_says_so_after_its_last_heartbeat(prefect_api: str) -> None:
    """The last heartbeats are still on their way when the run ends.

    The first comes from a thread of Prefect, at any time.
    """
    run_ids: list[UUID] = []

    @says_its_end
    @flow
    def real() -> None:
        from prefect.runtime import flow_run

        run_ids.append(UUID(str(flow_run.id)))
        until(lambda: HEARTBEAT in last_events(client, run_ids[0]), "no heartbeat")
        for _ in range(HEARTBEATS_ON_THEIR_WAY):
            heartbeat(run_ids[0])

    with get_client(sync_client=True) as client:
        real()
        (run,) = run_ids
        until(lambda: ENDED in last_events(client, run), "the end was not reported")
        last = last_events(client, run)
    assert last[HEARTBEAT]["received"] < last[ENDED]["received"]
