"""Table of deployments: the flows that a Prefect server can run, made from the recipes and the stages.

`nmt deploy` and `nmt up` install it (`installation.py`). `nmt deploy --yaml` prints it for users who maintain their own
`prefect.yaml`.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from prefect.client.schemas.objects import ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import Flow
from prefect.types.entrypoint import EntrypointType

from flows.display.markdown import plain
from flows.maintenance import gc, reconcile
from flows.promotion import promote, rollback
from flows.retrain import retrain
from flows.runs.ownership import DEPLOYMENT_TAG
from flows.runs.selection import StepName
from flows.stages import STAGE_FLOWS, sections_of
from flows.translate import translate
from flows.watch import watch
from nmt_core.config import PipelineConfig
from nmt_core.recipes.recipe import load_recipe, recipe_names

TAG = DEPLOYMENT_TAG
TRAINING_QUEUE = "training"
"""Work queue of training: one run at a time, unless the user raises its limit."""
JOB = {"command": "python -P -m flows.servers.isolated prefect.engine", "working_dir": "."}
"""Job variables of flow runs, which are processes of the worker's own interpreter in the worker's folder.

`nmt worker` puts the interpreter on the PATH. Work pools that this package creates fix both variables for all runs;
deployments for other pools carry them.
"""

_OF_OPERATORS = {"paused", "schedules", "concurrency_limit", "concurrency_options"}
COLLISIONS = {"skip": ConcurrencyLimitStrategy.CANCEL_NEW, "queue": ConcurrencyLimitStrategy.ENQUEUE}
"""Prefect's names of the values of `schedule.overlap`."""

_FIRST_RECIPE = "quickstart"
_COMPARED = ("table3-", "korean-")
"""Prefixes of recipes that are meant for `nmt compare` and not for scheduled retraining."""
_TRAINING: frozenset[StepName] = frozenset({"train"})
_ONCE: dict[str, Flow[..., Any]] = {
    "translate": translate,
    "promote": promote,
    "rollback": rollback,
    "gc": gc,
    "reconcile": reconcile,
}
"""Flows that belong to no recipe, by the name of their only deployment."""
_BY_THEMSELVES = {"reconcile": "*/15 * * * *"}
"""Cron schedules of those that run unattended."""


@dataclass(frozen=True)
class Recipe:
    """Recipe, with the address by which a worker finds it."""

    address: str
    """Name of the recipe, or absolute path of its file."""
    config: PipelineConfig

    @classmethod
    def read(cls, asked: str) -> "Recipe":
        """Read a recipe by its name or path.

        Raises:
            ConfigError: The recipe does not exist or is wrong.
        """
        return cls(asked if asked in recipe_names() else str(Path(asked).absolute()), load_recipe(asked))


@dataclass(frozen=True)
class Pools:
    """Work pools of the deployments."""

    cpu: str = "cpu"
    training: str = "cpu"
    """Pool of the machines with GPUs, if there are any."""


@dataclass(frozen=True)
class Entry:
    """Deployment."""

    flow: Flow[..., Any]
    name: str
    parameters: Mapping[str, Any]
    trains: bool = False
    cron: str = ""
    timezone: str = "UTC"
    description: str = ""
    overlap: Literal["", "skip", "queue"] = ""
    """Fate of a run that is due while another one of this deployment is running. Empty means that both run."""

    @property
    def full_name(self) -> str:
        """Name of the deployment in Prefect."""
        return f"{self.flow.name}/{self.name}"

    def deployment(self, pools: Pools) -> RunnerDeployment:
        """Return the deployment for Prefect, without the fields that operators decide: paused, limit, and schedules."""
        own: dict[str, Any] = {
            "name": self.name,
            "parameters": dict(self.parameters),
            "work_pool_name": pools.training if self.trains else pools.cpu,
            "work_queue_name": TRAINING_QUEUE if self.trains else "default",
            "job_variables": dict(JOB),
        }
        own |= {"description": self.description} if self.description else {}
        return _deployment_of(self.flow).model_copy(update=own)


@functools.cache
def _deployment_of(flow: Flow[..., Any]) -> RunnerDeployment:
    """Return the deployment of a flow as a template to copy, because describing the parameters is slow."""
    made: RunnerDeployment = RunnerDeployment.from_flow(
        flow, flow.name, tags=[TAG], entrypoint_type=EntrypointType.MODULE_PATH
    )
    made.model_fields_set.difference_update(_OF_OPERATORS)  # the defaults would overwrite the server's values
    return made


def table(asked: Iterable[str] = (), schedule: str | None = None) -> list[Entry]:
    """Return all deployments.

    Args:
        asked: Names or paths of recipes that get a deployment of `retrain` and of each stage. Empty means `retrain` of
            all recipes of the package except families for comparison, and the stages of the first recipe.
        schedule: Cron schedule of retraining, in place of the recipes' own.

    Raises:
        ConfigError: A recipe does not exist or is wrong.
    """
    to_retrain = [name for name in recipe_names() if not name.startswith(_COMPARED)]
    recipes = [Recipe.read(name) for name in asked or to_retrain]
    with_stages = recipes if asked else [recipe for recipe in recipes if recipe.address == _FIRST_RECIPE]
    entries = [entry for recipe in recipes for entry in _of_recipe(recipe, schedule)]
    entries += [_of_stage(step, recipe) for recipe in with_stages for step in STAGE_FLOWS]
    return entries + [Entry(flow, name, {}, cron=_BY_THEMSELVES.get(name, "")) for name, flow in _ONCE.items()]


def _of_recipe(recipe: Recipe, schedule: str | None) -> Iterator[Entry]:
    config = recipe.config
    parameters = {"config": config.model_dump(mode="json")}
    when = config.schedule
    cron = when.cron if schedule is None else schedule
    yield Entry(retrain, config.name, parameters, True, cron, when.timezone, plain(config.description), when.overlap)
    yield Entry(watch, config.name, parameters, cron=when.watch, timezone=when.timezone)


def _of_stage(step: StepName, recipe: Recipe) -> Entry:
    sections = {name: getattr(recipe.config, name).model_dump(mode="json") for name in sections_of(step)}
    return Entry(STAGE_FLOWS[step], recipe.config.name, sections | {"recipe": recipe.address}, step in _TRAINING)


def prefect_yaml(entries: Iterable[Entry], pools: Pools) -> str:
    """Return the table in the format of `prefect deploy --all`, which has no pools, queues and automations."""
    file = {"name": "nmt-pipeline", "pull": [], "deployments": [_as_yaml(entry, pools) for entry in entries]}
    return yaml.safe_dump(file, sort_keys=False, allow_unicode=True, width=120)


def _as_yaml(entry: Entry, pools: Pools) -> dict[str, Any]:
    made = entry.deployment(pools)
    schedules = [{"cron": entry.cron, "timezone": entry.timezone}] if entry.cron else []
    limit = {"limit": 1, "collision_strategy": COLLISIONS[entry.overlap].value} if entry.overlap else None
    return {
        "name": entry.name,
        "flow_name": entry.flow.name,
        "entrypoint": made.entrypoint,
        "description": made.description,
        "tags": list(made.tags),
        "parameters": made.parameters,
        "schedules": schedules,
        **({"concurrency_limit": limit} if limit else {}),
        "work_pool": {
            "name": made.work_pool_name,
            "work_queue_name": made.work_queue_name,
            "job_variables": made.job_variables,
        },
    }
