"""Detection of runs whose machine is gone: they have sent heartbeats, and no longer do.

After a server was down for a minute or two, or its database was blocked, all of its runs look silent although they are
alive. So a run is marked as ended only after another wait for a heartbeat. Otherwise a second run would start beside
the first, on the same GPUs.
"""

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.events import Event, emit_event
from prefect.events.filters import EventFilter, EventNameFilter, EventResourceFilter
from prefect.flows import Flow
from prefect.states import Cancelled, Crashed

from flows.tracking.paging import all_flow_runs
from nmt_core.errors import counted

HEARTBEAT = "prefect.flow-run.heartbeat"
"""Name of Prefect's heartbeat event of a run."""
ENDED = "nmt.flow-run.ended"
"""Event after the last heartbeat of a run. See `says_its_end`."""
HEARTBEATS_MISSED = 3
"""Number of missed heartbeats after which a run is silent."""

_LISTENED_FOR = 1.5  # heartbeat intervals: a live run sends one, and the server needs seconds to show it
_SECONDS_BETWEEN_LOOKS = 2.0


Decorated = TypeVar("Decorated", bound=Flow[..., Any])


def says_its_end(flow: Decorated) -> Decorated:
    """Make the runs of a flow send an event when they have ended, on the same connection as their heartbeats.

    Prefect's server sends such an event too, but immediately, while heartbeats may still be in transit for seconds,
    which is how long a short run takes. A heartbeat after the end of its run looks like a run that begins, and then
    falls silent. An event that is sent after it on the same connection cannot overtake it.
    """
    for hooks in (flow.on_completion_hooks, flow.on_failure_hooks, flow.on_cancellation_hooks, flow.on_crashed_hooks):
        hooks.append(say_the_end)
    return flow


def say_the_end(flow: object, flow_run: FlowRun, state: object) -> None:
    """Send the last event of a run, as a hook of Prefect."""
    emit_event(event=ENDED, resource={"prefect.resource.id": f"prefect.flow-run.{flow_run.id}"})


def heartbeat_seconds() -> int:
    """Return the interval of heartbeats in seconds."""
    return int(os.environ.get("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "30"))


def end_silent(
    prefect: SyncPrefectClient,
    say: Callable[[str], object],
    heartbeat: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Mark silent runs as Crashed, or as Cancelled if they were being cancelled, after another wait for a heartbeat.

    Runs that have never sent a heartbeat are ignored: they do not belong to this package.

    Args:
        prefect: Client of the server.
        say: Callback that receives a line about the wait and about each ended run.
        heartbeat: Interval of heartbeats in seconds.
        clock: Clock in seconds, for the wait.

    Returns:
        Names of the runs that were ended.
    """
    heard = _silent(prefect, since=datetime.now(UTC) - timedelta(seconds=HEARTBEATS_MISSED * heartbeat))
    if heard:
        say(
            f"{counted(len(heard), 'run')} without a heartbeat: waiting {_LISTENED_FOR * heartbeat:.0f} "
            "s for another one"
        )
    deadline = clock() + _LISTENED_FOR * heartbeat
    while heard and clock() < deadline:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        heard = {run: beat for run, beat in heard.items() if _is_last(prefect, run, beat)}
    return [name for run, beat in heard.items() if (name := _end(prefect, run, beat, say))]


def _silent(prefect: SyncPrefectClient, since: datetime) -> dict[UUID, Event]:
    """Return the runs without a heartbeat since then, each with its last heartbeat."""
    last = {run.id: _last_beat(prefect, run.id) for run in _running(prefect)}
    return {run: beat for run, beat in last.items() if beat and beat.occurred < since}


def _running(prefect: SyncPrefectClient) -> Iterator[FlowRun]:
    """Return all runs that only a process can end."""
    types = FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.CANCELLING])
    return all_flow_runs(prefect, FlowRunFilter(state=FlowRunFilterState(type=types)))


def _last_beat(prefect: SyncPrefectClient, run: UUID) -> Event | None:
    resource = EventResourceFilter(id=[f"prefect.flow-run.{run}"])
    events = prefect.read_events(
        EventFilter(event=EventNameFilter(name=[HEARTBEAT]), resource=resource), limit=1
    ).events
    return events[0] if events else None


def _is_last(prefect: SyncPrefectClient, run: UUID, beat: Event) -> bool:
    last = _last_beat(prefect, run)
    return last is None or last.id == beat.id


def _end(prefect: SyncPrefectClient, run: UUID, beat: Event, say: Callable[[str], object]) -> str | None:
    """End a run and return its name, or None if it has ended meanwhile or Prefect refuses."""
    now = prefect.read_flow_run(run)
    if not now.state or now.state.type not in {StateType.RUNNING, StateType.CANCELLING}:
        return None
    seconds = (datetime.now(UTC) - beat.occurred).total_seconds()
    message = f"no heartbeat for {seconds:.0f} s: its process is gone"
    end: State = Cancelled(message=message) if now.state.type == StateType.CANCELLING else Crashed(message=message)
    # Not forced: a run that ends at this moment keeps its own state
    if prefect.set_flow_run_state(run, end).status != SetStateStatus.ACCEPT:
        return None
    say(f"{now.name} is {end.name}: {message}")
    return now.name
