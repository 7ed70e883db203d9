"""Puts the table of deployments on a Prefect server: pools, queues, deployments, schedules, automations.

Whatever is there already is corrected, never doubled; schedules that people have added, limits that they have raised,
and deployments, schedules and automations that they have paused stay as they are.

Whoever may start a run could also choose its command and environment, which are variables of Prefect's pools for
processes. Our pools fix them: runs are what their deployments say.
"""

import copy
import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import (
    DeploymentScheduleCreate,
    DeploymentUpdate,
    WorkPoolCreate,
    WorkPoolUpdate,
)
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import DeploymentSchedule, VersionInfo, WorkPool
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.client.schemas.sorting import DeploymentSort
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker
from pydantic import ValidationError

from flows.deployment import automations
from flows.deployment.deployments import JOB, TAG, TRAINING_QUEUE, Entry, Pools
from nmt_core.errors import ConfigError

_FROM_THE_RECIPE = "recipe"
"""Slug of the schedule that a recipe asks for, among those that people have added."""
_ENV = "env"
"""Variable of Prefect's pools for processes by which, as by those of `JOB`, a run could become any program."""


def install(entries: Sequence[Entry], pools: Pools) -> list[str]:
    """Install the deployments, and say what was done.

    Args:
        entries: the table.
        pools: the work pools; `training` may be empty: a pool of the name `gpu` if the server has one, else `cpu`.

    Raises:
        ConfigError: a schedule is no cron, or the block for notifications is not there.
    """
    version = VersionInfo(type="prefect:simple", version=importlib.metadata.version("nmt-pipeline"))
    with get_client(sync_client=True) as client:
        pools = _chosen(client, pools)
        done = [line for pool in dict.fromkeys((pools.cpu, pools.training)) for line in _with_pool(client, pool)]
        done += _with_queue(client, pools.training)
        closed = [pool for pool in (pools.cpu, pools.training) if _is_closed(client.read_work_pool(pool))]
        found: dict[str, UUID] = {}
        for entry in entries:
            deployment = entry.deployment(pools)
            if deployment.work_pool_name in closed:
                deployment.job_variables = {}
            found[entry.full_name] = UUID(str(deployment.apply(version_info=version)))
            _schedule(client, found[entry.full_name], entry)
            when = f", {entry.cron} ({entry.timezone})" if entry.cron else ""
            done.append(f"{entry.full_name} on {deployment.work_pool_name}/{deployment.work_queue_name}{when}")
        done += _others(client, found)
        retrains = [(entry.name, found[entry.full_name]) for entry in entries if entry.flow.name == "retrain"]
        wanted = automations.wanted_automations(client, retrains, found.get("reconcile/reconcile"))
        return done + automations.install(client, wanted)


def _chosen(client: SyncPrefectClient, pools: Pools) -> Pools:
    if pools.training:
        return pools
    try:
        return replace(pools, training=client.read_work_pool("gpu").name)
    except ObjectNotFound:
        return replace(pools, training=pools.cpu)


def _with_pool(client: SyncPrefectClient, name: str) -> list[str]:
    """Make the work pool, of processes on the worker's machine, unless there is one, of whatever type."""
    try:
        return _close(client, client.read_work_pool(name))
    except ObjectNotFound:
        template = closed_template(ProcessWorker.get_default_base_job_template())
        client.create_work_pool(WorkPoolCreate(name=name, type=ProcessWorker.type, base_job_template=template))
        return [f"created the work pool {name}: `nmt worker --pool {name}` works for it"]


def closed_template(template: dict[str, Any]) -> dict[str, Any]:
    """Return a template for processes whose runs cannot choose their command, folder or environment.

    What a pool gives to all of its runs as their environment stays.
    """
    made = copy.deepcopy(template)
    variables = made["variables"]
    own = {name: variables["properties"].pop(name, {}) for name in (*JOB, _ENV)}
    made["job_configuration"] |= JOB
    if own[_ENV]:
        made["job_configuration"][_ENV] = own[_ENV].get("default", {})
    variables["additionalProperties"] = False  # else a variable that is not there is no error
    return made


def _is_closed(pool: WorkPool) -> bool:
    """Whether runs of a pool cannot choose what they run."""
    template = pool.base_job_template
    return pool.type == ProcessWorker.type and bool(template) and closed_template(template) == template


def _close(client: SyncPrefectClient, pool: WorkPool) -> list[str]:
    """Close a pool that is there already, if no deployment of somebody else could rely on it being open."""
    if pool.type != ProcessWorker.type or _is_closed(pool):
        return []
    its_own = WorkPoolFilter(name=WorkPoolFilterName(any_=[pool.name]))
    deployments = list(_all_deployments(client, work_pool_filter=its_own))
    others = sorted(deployment.name for deployment in deployments if TAG not in deployment.tags)
    if others:
        return [
            f"left the work pool {pool.name} as it is, for others use it ({', '.join(others)}): whoever may start runs "
            "there can choose their command; a pool of its own, by --pool, cannot be misused so"
        ]
    for deployment in deployments:
        if deployment.job_variables:
            client.update_deployment(deployment.id, DeploymentUpdate(job_variables={}))
    template = closed_template(pool.base_job_template or ProcessWorker.get_default_base_job_template())
    client.update_work_pool(pool.name, WorkPoolUpdate(base_job_template=template))
    return [f"updated the work pool {pool.name}: its runs can no longer choose their command"]


def _with_queue(client: SyncPrefectClient, pool: str) -> list[str]:
    """Make the queue for training, one run at a time: two would share the GPUs, and both be slow or out of memory."""
    try:
        client.read_work_queue_by_name(TRAINING_QUEUE, work_pool_name=pool)
        return []
    except ObjectNotFound:
        client.create_work_queue(
            TRAINING_QUEUE, description="Whatever trains.", concurrency_limit=1, work_pool_name=pool
        )
        return [f"created the work queue {pool}/{TRAINING_QUEUE}, for one run at a time"]


def _schedule(client: SyncPrefectClient, deployment: UUID, entry: Entry) -> None:
    """Have the deployment run when its recipe says, and not when it used to say.

    A schedule that is there is changed and not made anew, so that one that has been paused stays paused.
    """
    wanted = _cron(entry) if entry.cron else None
    there = [each for each in client.read_deployment_schedules(deployment) if each.slug == _FROM_THE_RECIPE]
    if wanted and not there:
        schedule = DeploymentScheduleCreate(schedule=wanted, slug=_FROM_THE_RECIPE)
        client.create_deployment_schedules(deployment, [schedule])
    for each in there:
        if not wanted:
            client.delete_deployment_schedule(deployment, each.id)
        elif not _same(each, wanted):
            client.update_deployment_schedule(deployment, each.id, schedule=wanted)


def _others(client: SyncPrefectClient, installed: Mapping[str, UUID]) -> list[str]:
    """Name the deployments with a schedule that this package has installed before, and not now.

    They are those of other recipes, or of one that has been renamed: then its old schedule retrains it still.
    """
    left = []
    for deployment in _deployments(client):
        scheduled = any(each.active for each in deployment.schedules)
        if deployment.id not in installed.values() and scheduled and not deployment.paused:
            left.append(f"{client.read_flow(deployment.flow_id).name}/{deployment.name}")
    if not left:
        return []
    return [
        f"not of this table, and still run by their schedules: {', '.join(sorted(left))}; what nobody wants any more "
        "goes with `prefect deployment delete NAME`"
    ]


def _deployments(client: SyncPrefectClient) -> Iterator[DeploymentResponse]:
    """All that have our tag."""
    return _all_deployments(client, deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG])))


def _all_deployments(client: SyncPrefectClient, **filters: Any) -> Iterator[DeploymentResponse]:
    """All that pass the filters; the server gives them page by page."""
    count = 0
    while page := client.read_deployments(sort=DeploymentSort.CREATED_DESC, offset=count, **filters):
        yield from page
        count += len(page)


def _cron(entry: Entry) -> CronSchedule:
    try:
        return CronSchedule(cron=entry.cron, timezone=entry.timezone)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise ConfigError(f"{entry.full_name}: schedule {entry.cron!r} in {entry.timezone}: {problem}") from None


def _same(found: DeploymentSchedule, wanted: CronSchedule) -> bool:
    schedule = found.schedule
    return isinstance(schedule, CronSchedule) and (schedule.cron, schedule.timezone) == (wanted.cron, wanted.timezone)
