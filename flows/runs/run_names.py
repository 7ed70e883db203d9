"""Names of flow runs: the name that the user typed, otherwise what the run does.

The form of Prefect's UI is filled in with a random name, and Prefect's server invents one for every other run. Such
names are recognised by their words, because a typed name may have the same form.
"""

import functools
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import prefect
from coolname.data import config as words_of_the_server
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from pydantic import BaseModel, ValidationError

from flows.runs.changes import differing, in_parentheses, in_short
from flows.runs.selection import STEPS
from nmt_core.config import PipelineConfig
from nmt_core.errors import NmtError
from nmt_core.recipes.recipe import split_changes, with_changes

Parameters = Mapping[str, Any]


class Deployed(NamedTuple):
    """Deployment of a run. Both are empty if it has none."""

    name: str = ""
    parameters: Parameters = MappingProxyType({})


Describe = Callable[[Parameters, Deployed], str]
"""Function that describes a run by its parameters and its deployment."""

_CHARACTERS_OF_A_NAME = 200
_NOT_OPTIONS = ("name", "description", "schedule")
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi "
    "psi omega"
)
_OF_THE_FORM = re.compile(rf"(?:{'|'.join(_GREEK.split())})\d*-(?P<star>[a-z-]+)")
_STARS = re.compile(r"`(andromedae\.[a-z.-]+)`")
"""List of the second words of the form's names, in the scripts of Prefect's UI."""


def unless_typed(describe: Describe) -> Callable[[], str]:
    """Return a function for Prefect's `flow_run_name`: it keeps a typed name, and describes the run otherwise.

    A retried run keeps its name.
    """

    def name() -> str:
        context = FlowRunContext.get()
        assert context and context.flow_run, "Prefect calls it within a run"
        given, parameters = context.flow_run.name, context.parameters or {}
        if not is_generated(given):
            return given
        return describe(parameters, _of_the_deployment(context))[:_CHARACTERS_OF_A_NAME]

    return name


def is_generated(name: str) -> bool:
    """Return True if Prefect's server or its form has invented a name."""
    first, _, second = name.partition("-")
    if first in _words("adj_any") and second in _words("subj"):
        return True
    match = _OF_THE_FORM.fullmatch(name)
    return match is not None and any(f"{match['star']}-".startswith(f"{star}-") for star in _stars())


def name_of_retraining(parameters: Parameters, deployed: Deployed) -> str:
    """Return a name such as `quickstart: retrain 2026-11-27 (train.max_updates=60)`."""
    config, first, last = parameters["config"], parameters.get("from_", STEPS[0]), parameters.get("until", STEPS[-1])
    recipe = config["name"] if isinstance(config, Mapping) else config.name
    what = "retrain" if (first, last) == (STEPS[0], STEPS[-1]) else first if first == last else f"{first} to {last}"
    text = str(parameters.get("changes") or "")
    changed = split_changes(text)
    if deployed.parameters:
        with suppress(NmtError):  # otherwise the run refuses the changes and says why
            before = with_changes(deployed.parameters["config"], "").model_dump(mode="json")
            now = with_changes(config, text).model_dump(mode="json")
            changed = [change for change in _changes(now, before) if not change.startswith(_NOT_OPTIONS)]
    changed += [f"force {stage}" for stage in parameters.get("force") or ()]
    return f"{recipe}: {what} {date.today()}{in_parentheses(changed)}"


def name_of_stage(step: str, parameters: Parameters, deployed: Deployed) -> str:
    """Return a name such as `quickstart: clean (max_words=12)`."""
    recipe = deployed.name or Path(str(parameters.get("recipe", ""))).stem
    sections = {name: kind.annotation for name, kind in PipelineConfig.model_fields.items() if name in parameters}
    before, now = _validated(sections, deployed.parameters), _validated(sections, parameters)
    changed = _changes(now, before) if before and now else []
    changed += split_changes(str(parameters.get("changes") or ""))
    changed = [change.removeprefix(f"{step}.") for change in changed]
    changed += ["force"] if parameters.get("force") else []
    return f"{recipe}: {step}{in_parentheses(changed)}"


def _changes(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    return [in_short(key, value) for key, (_, value) in differing(before, now).items()]


def _validated(sections: Mapping[str, Any], parameters: Parameters) -> dict[str, Any]:
    """Return the sections of a form as recipes are compared, or nothing if one is missing or wrong."""
    valid = {}
    for name, section in sections.items():
        value = parameters.get(name)
        if not isinstance(value, BaseModel):
            try:
                value = section.model_validate(value)
            except ValidationError:
                return {}
        valid[name] = value.model_dump(mode="json")
    return valid


def _of_the_deployment(context: FlowRunContext) -> Deployed:
    """Return the run's deployment, which is empty if it has none or if it was deleted."""
    run = context.flow_run
    if run and run.deployment_id:
        with suppress(ObjectNotFound), get_client(sync_client=True) as client:
            deployment = client.read_deployment(run.deployment_id)
            return Deployed(deployment.name, deployment.parameters)
    return Deployed()


@functools.cache
def _words(list_name: str) -> frozenset[str]:
    """Return all words of a list from which Prefect's server makes names."""
    words: Any = words_of_the_server[list_name]
    if "words" in words:
        return frozenset(words["words"])
    return frozenset().union(*(_words(name) for name in words["lists"]))


@functools.cache
def _stars() -> frozenset[str]:
    """Return the second words of the names in Prefect's form. They are only in the scripts of its pages."""
    for script in (prefect.__ui_static_path__ / "assets").glob("*.js"):
        if match := _STARS.search(script.read_text(encoding="utf-8")):
            return frozenset(match[1].split(".")) - {""}
    return frozenset()
