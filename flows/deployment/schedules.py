"""Schedules of the deployments on a Prefect server: list, pause and resume them, and remove a recipe's deployments."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import DeploymentSchedule, FlowRun, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.server.schemas import schedules as server_schedules
from pydantic import TypeAdapter

from flows.deployment.automations import name_of_drift, name_of_new_text
from flows.deployment.cron import in_words
from flows.deployment.installation import deployments_of_this_package
from flows.runs.selection import STEPS
from nmt_core.errors import ConfigError

_STARTS_BY_ITSELF = {"retrain", "watch"}
"""Flows of a recipe that a schedule or an automation starts."""
_OF_A_RECIPE = _STARTS_BY_ITSELF | set(STEPS)
_RECIPE_TAG = "recipe:"
_NOT_FOUND = 404
_GOING = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]


@dataclass(frozen=True)
class Deployed:
    """Deployment on the server."""

    flow: str
    recipe: str
    """Recipe that it belongs to, or its own name if it belongs to none."""
    found: DeploymentResponse

    @property
    def full_name(self) -> str:
        """Name of the deployment in Prefect."""
        return f"{self.flow}/{self.found.name}"


@dataclass(frozen=True)
class ScheduleRow:
    """Schedule as a list shows it."""

    deployment: str
    when: str
    """Times in words, or the schedule as Prefect shows it."""
    timezone: str
    next_run: datetime | None
    """Next time, in the time zone of the schedule. None if it is paused or has ended."""
    paused: bool
    last_run: datetime | None
    """Start of the newest run of the deployment, however it was started. None if there is none."""
    last_state: str


def deployed(client: SyncPrefectClient) -> list[Deployed]:
    """Return all deployments of this package, in alphabetical order."""
    flows: dict[UUID, str] = {}
    rows = []
    for found in deployments_of_this_package(client):
        if found.flow_id not in flows:
            flows[found.flow_id] = client.read_flow(found.flow_id).name
        of = [tag.removeprefix(_RECIPE_TAG) for tag in found.tags if tag.startswith(_RECIPE_TAG)]
        rows.append(Deployed(flows[found.flow_id], of[0] if of else found.name, found))
    return sorted(rows, key=lambda row: row.full_name)


def schedule_rows(client: SyncPrefectClient) -> list[ScheduleRow]:
    """Return a row for each schedule on the server."""
    rows = []
    for each in deployed(client):
        last = _last_run(client, each.found.id) if each.found.schedules else None
        rows += [_row(each, schedule, last) for schedule in each.found.schedules]
    return rows


def _row(each: Deployed, schedule: DeploymentSchedule, last: FlowRun | None) -> ScheduleRow:
    kind = schedule.schedule
    zone = str(getattr(kind, "timezone", None) or "UTC")
    paused = each.found.paused or not schedule.active
    if isinstance(kind, CronSchedule):
        when = in_words(kind.cron)
    elif isinstance(kind, IntervalSchedule):
        when = f"every {kind.interval}"
    else:
        when = str(getattr(kind, "rrule", "") or "by request")
    upcoming = None if paused else _next(schedule)
    return ScheduleRow(
        deployment=each.full_name,
        when=when,
        timezone=zone,
        next_run=upcoming.astimezone(ZoneInfo(zone)) if upcoming else None,
        paused=paused,
        last_run=last.start_time if last else None,
        last_state=(last.state_name or "") if last else "",
    )


def _next(schedule: DeploymentSchedule) -> datetime | None:
    """Return the next time of a schedule by the code of the server that starts its runs."""
    kinds: TypeAdapter[server_schedules.SCHEDULE_TYPES] = TypeAdapter(server_schedules.SCHEDULE_TYPES)
    dates = asyncio.run(kinds.validate_python(schedule.schedule.model_dump(exclude_unset=True)).get_dates(1))
    return dates[0] if dates else None


def _last_run(client: SyncPrefectClient, deployment: UUID) -> FlowRun | None:
    started = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[deployment]), start_time=FlowRunFilterStartTime(is_null_=False)
    )
    found = client.read_flow_runs(flow_run_filter=started, sort=FlowRunSort.START_TIME_DESC, limit=1)
    return found[0] if found else None


def set_paused(client: SyncPrefectClient, recipe: str, *, paused: bool) -> list[str]:
    """Pause or resume everything that starts runs of a recipe by itself, and return a line for each deployment.

    Args:
        client: Client of the server.
        recipe: Name of a recipe, or of a deployment with a schedule that belongs to no recipe.
        paused: True to pause, False to resume.

    Raises:
        ConfigError: The server has no such deployment.
    """
    lines = []
    for each in _of(client, recipe, by_itself=True):
        if each.found.paused == paused:
            lines.append(f"{each.full_name} was {'paused' if paused else 'not paused'} already")
            continue
        (client.pause_deployment if paused else client.resume_deployment)(each.found.id)
        times = ", ".join(_times(each)) or "on request and by automations"
        lines.append(f"{each.full_name} is paused" if paused else f"{each.full_name} runs again: {times}")
        if paused and (count := _going(client, each)):
            lines.append(f"{each.full_name}: {count} started before, and not affected")
    return lines


def _times(each: Deployed) -> Iterator[str]:
    for schedule in each.found.schedules:
        row = _row(each, schedule, None)
        yield f"{row.when} ({row.timezone})" + ("" if schedule.active else ", but this schedule itself is paused")


def undeploy(client: SyncPrefectClient, recipe: str) -> list[str]:
    """Remove all deployments of a recipe with their schedules, and its automation. Return a line for each.

    A server that is busy is asked again by Prefect's client. What a repeated request finds removed counts as removed.

    Raises:
        ConfigError: The server has no deployment of this recipe.
    """
    lines = []
    ours = _of(client, recipe, by_itself=False)
    for name in (name_of_new_text(recipe), name_of_drift(recipe)):
        for automation in client.read_automations_by_name(name):
            _removed(client.delete_automation, automation.id)  # first, because it starts a deployment
            lines.append(f"removed the automation {automation.name}")
    for each in ours:
        count = _going(client, each)
        _removed(client.delete_deployment, each.found.id)
        times = "".join(f", {when}" for when in _times(each))
        lines.append(f"removed {each.full_name}{times}" + (f"; {count} continue to their end" if count else ""))
    return lines


def _removed(remove: Callable[[UUID], object], identifier: UUID) -> None:
    """Remove an object, which an earlier try may have removed although its answer was lost."""
    try:
        remove(identifier)
    except ObjectNotFound:
        return
    except PrefectHTTPStatusError as error:  # the client has no error of its own for an automation that is gone
        if error.response.status_code != _NOT_FOUND:
            raise


def _of(client: SyncPrefectClient, recipe: str, *, by_itself: bool) -> list[Deployed]:
    """Return the deployments of a recipe: those that start by themselves, or all.

    Raises:
        ConfigError: There are none.
    """
    everything = deployed(client)
    known = [each for each in everything if each.flow in _OF_A_RECIPE or (by_itself and each.found.schedules)]
    found = [each for each in known if each.recipe == recipe]
    if by_itself:
        found = [each for each in found if each.found.schedules or each.flow in _STARTS_BY_ITSELF]
    if not found:
        names = ", ".join(sorted({each.recipe for each in known})) or "nothing; `nmt deploy` installs deployments"
        raise ConfigError(f"{recipe!r} is not deployed on this server, which has: {names}")
    return found


def _going(client: SyncPrefectClient, each: Deployed) -> str:
    """Return the number of runs of a deployment that have begun and not ended, in words. Empty means none."""
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=_GOING))
    ours = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[each.found.id]), state=state)
    names = [run.name for run in client.read_flow_runs(flow_run_filter=ours)]
    return f"{len(names)} running ({', '.join(names)})" if names else ""
