"""Late runs of a schedule: of several that waited while no worker was there, only the newest one starts.

    python -P -m flows.servers.late_runs

A worker that comes back after a weekend would otherwise retrain once for each time that the schedule came due.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelled

from flows.runs.ownership import DEPLOYMENT_TAG
from flows.tracking.paging import all_flow_runs
from nmt_core.errors import words_of

SKIPPED = "Skipped"
"""Name of the state of a late run in whose place a newer one starts. Its type is Cancelled."""

NO_SERVER = (
    "nmt: no Prefect server is known: set PREFECT_API_URL, such as to http://127.0.0.1:4200/api, or start one with "
    "`nmt up`, which starts a worker too"
)
"""Message of a program that needs a server and has no address."""

_WAITING = {"Scheduled", "Late", "AwaitingConcurrencySlot"}
"""States of a run that has never started. A run that waits for a retry has."""


def skip_late(
    prefect: SyncPrefectClient, say: Callable[[str], object], now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> list[str]:
    """Mark the late runs of each scheduled deployment of this package as skipped, except the newest run.

    Runs that a user or an automation has started are left alone.

    Args:
        prefect: Client of the server.
        say: Callback that receives a line about each deployment with skipped runs.
        now: Clock.

    Returns:
        Names of the skipped runs.
    """
    waiting: dict[UUID, list[FlowRun]] = {}
    for run in _overdue(prefect, now()):
        if run.deployment_id and run.auto_scheduled and run.state_name in _WAITING:
            waiting.setdefault(run.deployment_id, []).append(run)
    skipped = []
    for runs in waiting.values():
        *older, newest = sorted(runs, key=_due)
        message = f"late: no worker started it in time; the newest run, due at {_due(newest):%Y-%m-%d %H:%M %Z}, starts"
        names = [run.name for run in older if _skip(prefect, run, message)]
        if names:
            say(f"{len(names)} late runs of the flow run {newest.name}'s schedule are skipped: {', '.join(names)}")
        skipped += names
    return skipped


def _overdue(prefect: SyncPrefectClient, now: datetime) -> Iterator[FlowRun]:
    """Return all runs that wait although they are due."""
    waits = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED]))
    due = FlowRunFilter(state=waits, expected_start_time=FlowRunFilterExpectedStartTime(before_=now))
    deployments = DeploymentFilter(tags=DeploymentFilterTags(all_=[DEPLOYMENT_TAG]))
    return all_flow_runs(prefect, due, deployments)


def _due(run: FlowRun) -> datetime:
    return run.expected_start_time or datetime.min.replace(tzinfo=UTC)


def _skip(prefect: SyncPrefectClient, run: FlowRun, message: str) -> bool:
    """Return True if the run is skipped now. Not forced: a run that starts at this moment keeps its own state."""
    state: State = Cancelled(name=SKIPPED, message=message)
    return prefect.set_flow_run_state(run.id, state).status == SetStateStatus.ACCEPT


def knows_a_server() -> bool:
    """Return True if the environment or Prefect's profile has the address of a server.

    Without one, Prefect starts a server of its own for as long as the program runs.
    """
    return bool(PREFECT_API_URL.value())


def main(arguments: Sequence[str] | None = None) -> None:
    """Skip late runs, as a worker does before it starts. A server that does not answer is left to the worker."""
    parser = argparse.ArgumentParser(prog="python -P -m flows.servers.late_runs", description=main.__doc__)
    parser.parse_args(arguments)
    if not knows_a_server():
        print(NO_SERVER, file=sys.stderr)
        sys.exit(2)
    try:
        with get_client(sync_client=True) as prefect:
            skip_late(prefect, print)
    except Exception as error:
        print(f"late runs are not skipped: {words_of(error)}", file=sys.stderr)


if __name__ == "__main__":
    main()
