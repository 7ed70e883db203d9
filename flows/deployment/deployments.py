"""The table of deployments: what a Prefect server offers to run, made from the recipes and the stages.

`nmt deploy` and `nmt up` install it (`installation.py`); `nmt deploy --yaml` prints it for those who keep a
`prefect.yaml` of their own.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import Flow
from prefect.types.entrypoint import EntrypointType

from flows.display.markdown import plain
from flows.maintenance import gc, reconcile
from flows.promotion import promote, rollback
from flows.retrain import retrain
from flows.runs.selection import StepName
from flows.stages import STAGE_FLOWS, sections_of
from flows.translate import translate
from flows.watch import watch
from nmt_core.config import PipelineConfig
from nmt_core.recipes.recipe import load_recipe, recipe_names

TAG = "nmt"
TRAINING_QUEUE = "training"
"""Work queue of whatever trains: one run at a time, unless somebody raises its limit."""
JOB = {"command": "python -P -m flows.servers.isolated prefect.engine", "working_dir": "."}
"""Flow runs are processes of the worker's own interpreter, which `nmt worker` puts on the PATH, in its own folder.

A work pool of ours fixes both for all of its runs; deployments for other pools carry them.
"""

_OF_OPERATORS = {"paused", "schedules", "concurrency_limit", "concurrency_options"}
_FIRST_RECIPE = "quickstart"
_COMPARED = ("table3-", "korean-")
"""How names of families of recipes begin that `nmt compare` runs, and nobody retrains by schedule."""
_TRAINING: frozenset[StepName] = frozenset({"train"})
_ONCE: dict[str, Flow[..., Any]] = {
    "translate": translate,
    "promote": promote,
    "rollback": rollback,
    "gc": gc,
    "reconcile": reconcile,
}
"""Flows that are of no recipe, by the name of their one deployment."""
_BY_THEMSELVES = {"reconcile": "*/15 * * * *"}
"""When those of them run that nobody has to ask for."""


@dataclass(frozen=True)
class Recipe:
    """A recipe, and what a worker finds it by."""

    address: str
    """Its name, or the absolute path of its file."""
    config: PipelineConfig

    @classmethod
    def read(cls, asked: str) -> "Recipe":
        """Read a recipe by its name or path.

        Raises:
            ConfigError: there is none, or it is wrong.
        """
        return cls(asked if asked in recipe_names() else str(Path(asked).absolute()), load_recipe(asked))


@dataclass(frozen=True)
class Pools:
    """The work pools."""

    cpu: str = "cpu"
    training: str = "cpu"
    """Where GPUs are, if anywhere."""


@dataclass(frozen=True)
class Entry:
    """One deployment."""

    flow: Flow[..., Any]
    name: str
    parameters: Mapping[str, Any]
    trains: bool = False
    cron: str = ""
    timezone: str = "UTC"
    description: str = ""

    @property
    def full_name(self) -> str:
        """As Prefect names it."""
        return f"{self.flow.name}/{self.name}"

    def deployment(self, pools: Pools) -> RunnerDeployment:
        """As Prefect takes it, without what operators decide: whether it is paused, its limit, and its schedules."""
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
    """Return a deployment of a flow, to be copied: describing the flow's parameters takes as long as all the rest."""
    made: RunnerDeployment = RunnerDeployment.from_flow(
        flow, flow.name, tags=[TAG], entrypoint_type=EntrypointType.MODULE_PATH
    )
    made.model_fields_set.difference_update(_OF_OPERATORS)  # the defaults would take the place of what is there
    return made


def table(asked: Iterable[str] = (), schedule: str | None = None) -> list[Entry]:
    """All deployments.

    Args:
        asked: names or paths of recipes that get a deployment of `retrain` and of each stage; none: `retrain` of all
            that come with the package but for families to be compared, and the stages of the first.
        schedule: cron to retrain them by, in place of what they say themselves.

    Raises:
        ConfigError: a recipe is not there, or is wrong.
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
    yield Entry(retrain, config.name, parameters, True, cron, when.timezone, plain(config.description))
    yield Entry(watch, config.name, parameters, cron=when.watch, timezone=when.timezone)


def _of_stage(step: StepName, recipe: Recipe) -> Entry:
    sections = {name: getattr(recipe.config, name).model_dump(mode="json") for name in sections_of(step)}
    return Entry(STAGE_FLOWS[step], recipe.config.name, sections | {"recipe": recipe.address}, step in _TRAINING)


def prefect_yaml(entries: Iterable[Entry], pools: Pools) -> str:
    """The table as `prefect deploy --all` reads it. Pools, queues and automations are not part of such a file."""
    file = {"name": "nmt-pipeline", "pull": [], "deployments": [_as_yaml(entry, pools) for entry in entries]}
    return yaml.safe_dump(file, sort_keys=False, allow_unicode=True, width=120)


def _as_yaml(entry: Entry, pools: Pools) -> dict[str, Any]:
    made = entry.deployment(pools)
    schedules = [{"cron": entry.cron, "timezone": entry.timezone}] if entry.cron else []
    return {
        "name": entry.name,
        "flow_name": entry.flow.name,
        "entrypoint": made.entrypoint,
        "description": made.description,
        "tags": list(made.tags),
        "parameters": made.parameters,
        "schedules": schedules,
        "work_pool": {
            "name": made.work_pool_name,
            "work_queue_name": made.work_queue_name,
            "job_variables": made.job_variables,
        },
    }
