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

from flows.deployment.forms import check_at_the_option, folded, leave_out_what_does_nothing, values_that_differ
from flows.display.markdown import plain
from flows.maintenance import gc, reconcile
from flows.promotion import promote, rollback
from flows.retrain import retrain
from flows.runs.origin import producer_of
from flows.runs.ownership import DEPLOYMENT_TAG
from flows.runs.selection import REGISTER, STEPS, StepName
from flows.stages import STAGE_FLOWS, sections_of
from flows.translate import translate
from flows.watch import watch
from nmt_core.config import PipelineConfig
from nmt_core.recipes.recipe import load_recipe, recipe_names
from nmt_core.stages.table import stages_of

TAG = DEPLOYMENT_TAG
"""Tag of all deployments. They also have tags of the form `kind:stage`, `recipe:quickstart` and `stage:02-clean`."""
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

_DEMO = "quickstart"
"""Recipe that is deployed if the user names none."""
_TRAINING: frozenset[StepName] = frozenset({"train"})
_ONCE: dict[str, tuple[Flow[..., Any], str, str]] = {
    "translate": (translate, "translate", "Translates files with a registered model, line by line."),
    "promote": (promote, "admin", "Makes a version of a model the champion, whatever the gate said."),
    "rollback": (rollback, "admin", "Makes the previous champion of a model the champion again."),
    "gc": (gc, "admin", "Lists the artifacts that no recent run needs. With `delete`, it frees their space."),
    "reconcile": (reconcile, "admin", "Ends runs whose machine is gone. It runs every 15 minutes by itself."),
}
"""Flows that belong to no recipe, by the name of their only deployment, each with its kind and its description."""
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
    kind: str = "admin"
    """Kind of work, by which the pages of Prefect can be filtered: retrain, stage, watch, translate or admin."""
    recipe: str = ""
    """Name of the recipe. Empty for deployments that belong to none."""
    overlap: Literal["", "skip", "queue"] = ""
    """Fate of a run that is due while another one of this deployment is running. Empty means that both run."""
    form: PipelineConfig | None = None
    """Recipe by which the sections of the form are folded. None means that the form is not folded."""

    @property
    def full_name(self) -> str:
        """Name of the deployment in Prefect."""
        return f"{self.flow.name}/{self.name}"

    @property
    def tags(self) -> list[str]:
        """Tags of the deployment, and so of its runs."""
        tags = [TAG, f"kind:{self.kind}"]
        tags += [f"recipe:{self.recipe}"] if self.recipe else []
        step = self.flow.name
        return tags + ([f"stage:{STEPS.index(step) + 1:02}-{step}"] if step in STEPS else [])

    def deployment(self, pools: Pools) -> RunnerDeployment:
        """Return the deployment for Prefect, without the fields that operators decide: paused, limit, and schedules."""
        own: dict[str, Any] = {
            "name": self.name,
            "parameters": dict(self.parameters),
            "work_pool_name": pools.training if self.trains else pools.cpu,
            "work_queue_name": TRAINING_QUEUE if self.trains else "default",
            "job_variables": dict(JOB),
            "tags": self.tags,
        }
        own |= {"description": self.description} if self.description else {}
        made = _deployment_of(self.flow).model_copy(update=own)
        if self.form:
            made._parameter_openapi_schema = folded(made._parameter_openapi_schema, self.form)
        return made


@functools.cache
def _deployment_of(flow: Flow[..., Any]) -> RunnerDeployment:
    """Return the deployment of a flow as a template to copy, because describing the parameters is slow."""
    made: RunnerDeployment = RunnerDeployment.from_flow(
        flow, flow.name, tags=[TAG], entrypoint_type=EntrypointType.MODULE_PATH
    )
    made.model_fields_set.difference_update(_OF_OPERATORS)  # the defaults would overwrite the server's values
    leave_out_what_does_nothing(flow.name, made._parameter_openapi_schema)
    check_at_the_option(made._parameter_openapi_schema)
    return made


def table(asked: Iterable[str] = (), schedule: str | None = None) -> list[Entry]:
    """Return all deployments.

    Args:
        asked: Names or paths of recipes. Each gets a deployment of `retrain`, one of each of its stages, and one of
            `watch` if its schedule watches. Empty means the quickstart.
        schedule: Cron schedule of retraining, in place of the recipes' own.

    Raises:
        ConfigError: A recipe does not exist or is wrong.
    """
    recipes = [Recipe.read(name) for name in asked or (_DEMO,)]
    entries = [entry for recipe in recipes for entry in _of_recipe(recipe, schedule)]
    entries += [_of_stage(step, recipe) for recipe in recipes for step in _steps_of(recipe.config)]
    return entries + [
        Entry(flow, name, {}, cron=_BY_THEMSELVES.get(name, ""), description=description, kind=kind)
        for name, (flow, kind, description) in _ONCE.items()
    ]


def _steps_of(config: PipelineConfig) -> list[StepName]:
    """Return the steps of a run of the recipe, in order."""
    made = {stage.name for stage in stages_of(config)}
    return [step for step in STEPS if step in made or step == REGISTER]


def _of_recipe(recipe: Recipe, schedule: str | None) -> Iterator[Entry]:
    config = recipe.config
    parameters = {"config": config.model_dump(mode="json", exclude_none=True)}  # Prefect refuses a null here
    when, name = config.schedule, config.name
    cron = when.cron if schedule is None else schedule
    about = f"Retrains {name}, from its corpora to a registered model. {plain(config.description)}".strip()
    own = {"config": values_that_differ(config)}
    yield Entry(retrain, name, own, True, cron, when.timezone, about, "retrain", name, when.overlap, config)
    if when.watch:
        about = f"Looks for changed text at the addresses of {name}. If it has changed, a retraining starts."
        yield Entry(watch, name, parameters, False, when.watch, when.timezone, about, "watch", name)


def _of_stage(step: StepName, recipe: Recipe) -> Entry:
    name = recipe.config.name
    values = recipe.config.model_dump(mode="json", exclude_none=True)
    parameters = {section: values[section] for section in sections_of(step)} | {"recipe": recipe.address}
    producer = producer_of(step)
    start = (
        f" It starts from the newest artifact of {producer}, or from the one that `input` names." if producer else ""
    )
    about = f"Runs only the stage {step} of {name}.{start}"
    flow, trains = STAGE_FLOWS[step], step in _TRAINING
    return Entry(flow, name, parameters, trains, description=about, kind="stage", recipe=name)


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
