"""Installation of deployments on a Prefect server, with pools, queues, schedules and automations.

Existing objects are updated and never duplicated. Schedules that users have added, limits that they have raised, and
deployments, schedules and automations that they have paused are not changed.

A user who may start a run could also choose its command and environment, which are variables of Prefect's process
pools. Pools of this package fix them, so that a run does only what its deployment defines.
"""

import copy
import importlib.metadata
from collections import defaultdict
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
from prefect.client.schemas.objects import ConcurrencyOptions, DeploymentSchedule, VersionInfo, WorkPool
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.client.schemas.sorting import DeploymentSort
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker
from pydantic import ValidationError

from flows.deployment import automations
from flows.deployment.deployments import COLLISIONS, JOB, TAG, TRAINING_QUEUE, Entry, Pools
from nmt_core.config.faults import problem_of
from nmt_core.errors import ConfigError

_FROM_THE_RECIPE = "recipe"
"""Slug of the recipe's own schedule, which distinguishes it from schedules that users have added."""
_FLOWS_NAMED = 3
_REMEDY = "remove the ones that are no longer needed with `nmt undeploy RECIPE`"
_ENV = "env"
"""Variable of Prefect's process pools that could turn a run into any program, as the variables in `JOB` could."""


def install(entries: Sequence[Entry], pools: Pools) -> list[str]:
    """Install the deployments, and return a line for each change.

    Args:
        entries: Table of deployments.
        pools: Work pools. If `training` is empty, the pool `gpu` is used if the server has it, otherwise `cpu`.

    Raises:
        ConfigError: A schedule is not a valid cron, or the block for notifications does not exist.
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
            _limit(client, found[entry.full_name], entry)
            when = f", {entry.cron} ({entry.timezone})" if entry.cron else ""
            done.append(f"{entry.full_name} on {deployment.work_pool_name}/{deployment.work_queue_name}{when}")
        done += _others(client, found)
        watched = {entry.recipe for entry in entries if entry.kind == "watch"}
        retrains = [
            (entry.name, found[entry.full_name])
            for entry in entries
            if entry.kind == "retrain" and entry.recipe in watched
        ]
        drifts = [
            (entry.form, found[entry.full_name])
            for entry in entries
            if entry.kind == "retrain" and entry.form and entry.form.schedule.drifting_jobs
        ]
        wanted = automations.wanted_automations(client, retrains, found.get("reconcile/reconcile"), drifts)
        return done + automations.install(client, wanted)


def _chosen(client: SyncPrefectClient, pools: Pools) -> Pools:
    if pools.training:
        return pools
    try:
        return replace(pools, training=client.read_work_pool("gpu").name)
    except ObjectNotFound:
        return replace(pools, training=pools.cpu)


def _with_pool(client: SyncPrefectClient, name: str) -> list[str]:
    """Create the work pool for processes on the worker's machine, unless a pool of this name exists."""
    try:
        return _close(client, client.read_work_pool(name))
    except ObjectNotFound:
        template = closed_template(ProcessWorker.get_default_base_job_template())
        client.create_work_pool(WorkPoolCreate(name=name, type=ProcessWorker.type, base_job_template=template))
        return [f"created the work pool {name}: start a worker with `nmt worker --pool {name}`"]


def closed_template(template: dict[str, Any]) -> dict[str, Any]:
    """Return a template for processes whose runs cannot choose their command, folder or environment.

    The environment that a pool sets for all of its runs is kept.
    """
    made = copy.deepcopy(template)
    variables = made["variables"]
    own = {name: variables["properties"].pop(name, {}) for name in (*JOB, _ENV)}
    made["job_configuration"] |= JOB
    if own[_ENV]:
        made["job_configuration"][_ENV] = own[_ENV].get("default", {})
    variables["additionalProperties"] = False  # otherwise an unknown variable is no error
    return made


def _is_closed(pool: WorkPool) -> bool:
    """Return True if runs of a pool cannot choose what they run."""
    template = pool.base_job_template
    return pool.type == ProcessWorker.type and bool(template) and closed_template(template) == template


def _close(client: SyncPrefectClient, pool: WorkPool) -> list[str]:
    """Close an existing pool, if no deployment of another package could rely on it being open."""
    if pool.type != ProcessWorker.type or _is_closed(pool):
        return []
    its_own = WorkPoolFilter(name=WorkPoolFilterName(any_=[pool.name]))
    deployments = list(_all_deployments(client, work_pool_filter=its_own))
    others = sorted(deployment.name for deployment in deployments if TAG not in deployment.tags)
    if others:
        return [
            f"kept the work pool {pool.name} unchanged, because other deployments use it ({', '.join(others)}): users "
            "who may start runs there can choose their command; use --pool with another name to prevent this"
        ]
    for deployment in deployments:
        if deployment.job_variables:
            client.update_deployment(deployment.id, DeploymentUpdate(job_variables={}))
    template = closed_template(pool.base_job_template or ProcessWorker.get_default_base_job_template())
    client.update_work_pool(pool.name, WorkPoolUpdate(base_job_template=template))
    return [f"updated the work pool {pool.name}: its runs can no longer choose their command"]


def _with_queue(client: SyncPrefectClient, pool: str) -> list[str]:
    """Create the queue for training, for one run at a time: two would compete for the GPUs and their memory."""
    try:
        client.read_work_queue_by_name(TRAINING_QUEUE, work_pool_name=pool)
        return []
    except ObjectNotFound:
        client.create_work_queue(TRAINING_QUEUE, description="Training runs.", concurrency_limit=1, work_pool_name=pool)
        return [f"created the work queue {pool}/{TRAINING_QUEUE}, for one run at a time"]


def _schedule(client: SyncPrefectClient, deployment: UUID, entry: Entry) -> None:
    """Set the deployment's schedule to the recipe's, and remove a former one.

    An existing schedule is updated and not created again, so that a paused schedule stays paused.
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


def _limit(client: SyncPrefectClient, deployment: UUID, entry: Entry) -> None:
    """Let one run of a deployment run at a time, and set what happens to another one. A limit that exists is kept."""
    if not entry.overlap:
        return
    strategy, there = COLLISIONS[entry.overlap], client.read_deployment(deployment)
    options = there.concurrency_options
    update: dict[str, Any] = {}
    if there.global_concurrency_limit is None:
        update["concurrency_limit"] = 1
    if options is None or options.collision_strategy != strategy:
        grace = options.grace_period_seconds if options else None
        update["concurrency_options"] = ConcurrencyOptions(collision_strategy=strategy, grace_period_seconds=grace)
    if update:
        client.update_deployment(deployment, DeploymentUpdate(**update))


def _others(client: SyncPrefectClient, installed: Mapping[str, UUID]) -> list[str]:
    """Name the deployments that this package has installed before, but not now. They are kept.

    They belong to other recipes, or to one that has been renamed: its old schedule still retrains it.
    """
    flows, scheduled = defaultdict(list), []
    for deployment in deployments_of_this_package(client):
        if deployment.id in installed.values():
            continue
        flow = client.read_flow(deployment.flow_id).name
        flows[deployment.name].append(flow)
        if not deployment.paused and any(each.active for each in deployment.schedules):
            scheduled.append(f"{flow}/{deployment.name}")
    lines = []
    if flows:
        kept = ", ".join(f"{name} ({_some(flows[name])})" for name in sorted(flows))
        lines.append(f"kept, but not part of these deployments: {kept}; {_REMEDY}")
    if scheduled:
        lines.append(f"not part of these deployments, but still scheduled: {', '.join(sorted(scheduled))}")
    return lines


def _some(flows: Sequence[str]) -> str:
    """Return the names of a recipe's flows, or their number if there are many."""
    return ", ".join(sorted(flows)) if len(flows) <= _FLOWS_NAMED else f"{len(flows)} deployments"


def deployments_of_this_package(client: SyncPrefectClient) -> Iterator[DeploymentResponse]:
    """Yield all deployments with the tag of this package."""
    return _all_deployments(client, deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG])))


def _all_deployments(client: SyncPrefectClient, **filters: Any) -> Iterator[DeploymentResponse]:
    """Yield all deployments that pass the filters, from all pages of the server."""
    count = 0
    while page := client.read_deployments(sort=DeploymentSort.CREATED_DESC, offset=count, **filters):
        yield from page
        count += len(page)


def _cron(entry: Entry) -> CronSchedule:
    try:
        return CronSchedule(cron=entry.cron, timezone=entry.timezone)
    except ValidationError as error:
        problem = problem_of(error.errors()[0])
        raise ConfigError(f"{entry.full_name}: schedule {entry.cron!r} in {entry.timezone}: {problem}") from None


def _same(found: DeploymentSchedule, wanted: CronSchedule) -> bool:
    schedule = found.schedule
    return isinstance(schedule, CronSchedule) and (schedule.cron, schedule.timezone) == (wanted.cron, wanted.timezone)
