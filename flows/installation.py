"""Puts the table of deployments on a Prefect server: pools, queues, deployments, schedules, automations.

Whatever is there already is corrected, never doubled; schedules that people have added, limits that they have raised
and automations that they have paused stay as they are.
"""

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.objects import DeploymentSchedule, VersionInfo
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.client.schemas.sorting import DeploymentSort
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker
from pydantic import ValidationError

from flows import automations
from flows.deploy import TAG, TRAINING_QUEUE, Entry, Pools
from nmt_core.errors import ConfigError

_FROM_THE_RECIPE = "recipe"
"""Slug of the schedule that a recipe asks for, among those that people have added."""


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
        found: dict[str, UUID] = {}
        for entry in entries:
            deployment = entry.deployment(pools)
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
        client.read_work_pool(name)
        return []
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(WorkPoolCreate(name=name, type=ProcessWorker.type, base_job_template=template))
        return [f"created the work pool {name}: `nmt worker --pool {name}` works for it"]


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
    """Have the deployment run when its recipe says, and not when it used to say."""
    wanted = _cron(entry) if entry.cron else None
    there = [each for each in client.read_deployment_schedules(deployment) if each.slug == _FROM_THE_RECIPE]
    for each in there:
        if not _same(each, wanted):
            client.delete_deployment_schedule(deployment, each.id)
    if wanted and not any(_same(each, wanted) for each in there):
        schedule = DeploymentScheduleCreate(schedule=wanted, slug=_FROM_THE_RECIPE)
        client.create_deployment_schedules(deployment, [schedule])


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
    """All that have our tag; the server gives them page by page."""
    ours, count = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG])), 0
    while page := client.read_deployments(deployment_filter=ours, sort=DeploymentSort.CREATED_DESC, offset=count):
        yield from page
        count += len(page)


def _cron(entry: Entry) -> CronSchedule:
    try:
        return CronSchedule(cron=entry.cron, timezone=entry.timezone)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise ConfigError(f"{entry.full_name}: schedule {entry.cron!r} in {entry.timezone}: {problem}") from None


def _same(found: DeploymentSchedule, wanted: CronSchedule | None) -> bool:
    schedule = found.schedule
    if wanted is None or not isinstance(schedule, CronSchedule):
        return False
    return (schedule.cron, schedule.timezone) == (wanted.cron, wanted.timezone)
