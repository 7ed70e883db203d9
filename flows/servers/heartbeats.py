"""Runs whose machine is gone: they have shown signs of life, and no longer do. Nobody else could end them.

A server that was away for a minute or two, or whose database stood still, finds all of its runs silent when it is back,
although they live. So nobody is declared dead before he has been listened to once more. A second run would otherwise
start beside the first, on the same GPUs.
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
from prefect.client.schemas.sorting import FlowRunSort
from prefect.events import Event, emit_event
from prefect.events.filters import EventFilter, EventNameFilter, EventResourceFilter
from prefect.flows import Flow
from prefect.states import Cancelled, Crashed

HEARTBEAT = "prefect.flow-run.heartbeat"
"""What Prefect calls a run's sign of life."""
ENDED = "nmt.flow-run.ended"
"""Last sign of life of a run; see `says_its_end`."""
HEARTBEATS_MISSED = 3
"""After how many that did not come a run is silent."""

_LISTENED_FOR = 1.5  # heartbeats: one comes of whoever lives, and the server needs seconds to show it
_SECONDS_BETWEEN_LOOKS = 2.0


Decorated = TypeVar("Decorated", bound=Flow[..., Any])


def says_its_end(flow: Decorated) -> Decorated:
    """Have the runs of a flow say when they have ended, on the same line as their heartbeats.

    Prefect's server says so as well, but at once, while heartbeats may be on their way for seconds, which is how long
    a short run takes. One that comes after the end of its run looks like a run that begins, and then falls silent. What
    is sent after it on the same line cannot overtake it.
    """
    for hooks in (flow.on_completion_hooks, flow.on_failure_hooks, flow.on_cancellation_hooks, flow.on_crashed_hooks):
        hooks.append(say_the_end)
    return flow


def say_the_end(flow: object, flow_run: FlowRun, state: object) -> None:
    """Send the last sign of life of a run, as a hook of Prefect's."""
    emit_event(event=ENDED, resource={"prefect.resource.id": f"prefect.flow-run.{flow_run.id}"})


def heartbeat_seconds() -> int:
    """Seconds from one heartbeat to the next."""
    return int(os.environ.get("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "30"))


def end_silent(
    prefect: SyncPrefectClient,
    say: Callable[[str], object],
    heartbeat: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Have the runs Crashed, or Cancelled if they were being so, that are silent and still are after a while.

    Runs that have never shown a sign of life are left alone: they are none of this package.

    Args:
        prefect: the server.
        say: is told whom we listen to, and what became of each.
        heartbeat: seconds from one to the next.
        clock: seconds, by which we listen.

    Returns:
        The names of the runs that were ended.
    """
    heard = _silent(prefect, since=datetime.now(UTC) - timedelta(seconds=HEARTBEATS_MISSED * heartbeat))
    if heard:
        say(f"{len(heard)} silent: listening for {_LISTENED_FOR * heartbeat:.0f} s")
    deadline = clock() + _LISTENED_FOR * heartbeat
    while heard and clock() < deadline:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        heard = {run: beat for run, beat in heard.items() if _is_last(prefect, run, beat)}
    return [name for run, beat in heard.items() if (name := _end(prefect, run, beat, say))]


def _silent(prefect: SyncPrefectClient, since: datetime) -> dict[UUID, Event]:
    """Runs that have not been heard of since then, and the last heartbeat of each."""
    last = {run.id: _last_beat(prefect, run.id) for run in _running(prefect)}
    return {run: beat for run, beat in last.items() if beat and beat.occurred < since}


def _running(prefect: SyncPrefectClient) -> Iterator[FlowRun]:
    """All runs that only a process can end; the server gives them page by page."""
    types = FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.CANCELLING])
    ours, count = FlowRunFilter(state=FlowRunFilterState(type=types)), 0
    while page := prefect.read_flow_runs(flow_run_filter=ours, sort=FlowRunSort.ID_DESC, offset=count):
        yield from page
        count += len(page)


def _last_beat(prefect: SyncPrefectClient, run: UUID) -> Event | None:
    ours = EventResourceFilter(id=[f"prefect.flow-run.{run}"])
    found = prefect.read_events(EventFilter(event=EventNameFilter(name=[HEARTBEAT]), resource=ours), limit=1).events
    return found[0] if found else None


def _is_last(prefect: SyncPrefectClient, run: UUID, beat: Event) -> bool:
    last = _last_beat(prefect, run)
    return last is None or last.id == beat.id


def _end(prefect: SyncPrefectClient, run: UUID, beat: Event, say: Callable[[str], object]) -> str:
    """End a run, and return its name; empty if it has ended by itself meanwhile, or Prefect will not have it."""
    now = prefect.read_flow_run(run)
    if not now.state or now.state.type not in {StateType.RUNNING, StateType.CANCELLING}:
        return ""
    seconds = (datetime.now(UTC) - beat.occurred).total_seconds()
    message = f"no heartbeat for {seconds:.0f} s: its process is gone"
    end: State = Cancelled(message=message) if now.state.type == StateType.CANCELLING else Crashed(message=message)
    # Not by force: a run that ends in this very moment has ended as it says
    if prefect.set_flow_run_state(run, end).status != SetStateStatus.ACCEPT:
        return ""
    say(f"{now.name} is {end.name}: {message}")
    return now.name
