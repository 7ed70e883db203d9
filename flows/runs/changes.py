"""Options that differ: between a run and its recipe, and between two runs."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from nmt_core.config import PipelineConfig
from nmt_core.errors import NmtError, shown
from nmt_core.recipes.recipe import load_recipe, recipe_names

_NOT_COMPARED = {"name", "description", "schedule"}
"""Parts of a recipe that change no result."""
_CHANGES_SHOWN = 3
_CHARACTERS_OF_A_VALUE = 30

_recipe: ContextVar[str] = ContextVar("_recipe", default="")

_log = logging.getLogger(__name__)


@contextmanager
def begun_with(recipe: str) -> Iterator[None]:
    """Compare the runs inside this block with a recipe, by its name or path."""
    token = _recipe.set(recipe)
    try:
        yield
    finally:
        _recipe.reset(token)


def changes_of(config: PipelineConfig) -> dict[str, Any]:
    """Return the options of a run that differ from its recipe, by their dotted path.

    The recipe is the one that the command line or the form names, otherwise the one that was deployed, otherwise the
    package's recipe of the same name. Without a recipe, the result is empty.
    """
    recipe = _read(_recipe.get()) or _of_the_flow_run() or _read(config.name if config.name in recipe_names() else "")
    return differences(recipe, config) if recipe else {}


def differences(recipe: PipelineConfig, config: PipelineConfig) -> dict[str, Any]:
    """Return the options of `config` that have another value in `recipe`, by their dotted path."""
    before, now = (one.model_dump(mode="json", exclude=_NOT_COMPARED) for one in (recipe, config))
    defaults = leaves(_with_all_options(config))
    changed = differing(before, now)
    return {key: defaults.get(key) if value is None else value for key, (_, value) in changed.items()}


def leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return every option by its dotted path."""
    values_by_key: dict[str, Any] = {}
    for key, value in values.items():
        values_by_key |= leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return values_by_key


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the options that differ between two recipes, by their dotted path: each value before and now.

    None stands for an option that is left out.
    """
    former, present = leaves(before), leaves(now)
    keys = dict.fromkeys((*present, *former))
    pairs = {key: (former.get(key), present.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def in_words(changes: Mapping[str, Any]) -> str:
    """Return changes as `--set` takes them, with a space between them."""
    return " ".join(f"{key}={value}" for key, value in changes.items())


def in_short(key: str, value: Any) -> str:
    """Return one change as a name shows it, such as `max_words=12`. Long values are cut."""
    text = value if isinstance(value, str) else shown(value, _CHARACTERS_OF_A_VALUE)
    text = {"True": "true", "False": "false", "None": "none"}.get(text, text[:_CHARACTERS_OF_A_VALUE])
    return f"{key}={text}"


def in_parentheses(changes: Sequence[str]) -> str:
    """Return the end of a name that says what was changed, such as ` (max_words=12)`, or "" without changes."""
    if not changes:
        return ""
    more = len(changes) - _CHANGES_SHOWN
    return f" ({', '.join(changes[:_CHANGES_SHOWN])}{f', and {more} more' if more > 0 else ''})"


def _read(recipe: str) -> PipelineConfig | None:
    """Return a recipe, or None if there is none or it is valid only with other values."""
    try:
        return load_recipe(recipe) if recipe else None
    except NmtError:
        return None


def _of_the_flow_run() -> PipelineConfig | None:
    """Return the recipe that the parameters of the Prefect run or its deployment hold. Never raises."""
    from prefect.client.orchestration import get_client
    from prefect.runtime import deployment, flow_run

    try:
        if recipe := _read((flow_run.parameters or {}).get("recipe", "")):
            return recipe
        if not deployment.id:
            return None
        with get_client(sync_client=True) as client:
            values = client.read_deployment(UUID(deployment.id)).parameters.get("config")
        return PipelineConfig.model_validate(values) if values else None
    except Exception as error:  # the server does not answer, or the deployment is of another version
        _log.debug("the recipe of the deployment is unknown", exc_info=error)
        return None


def _with_all_options(config: PipelineConfig) -> dict[str, Any]:
    """Return all values of a configuration, also of options that are left out while they have their default."""
    return {name: _values(getattr(config, name)) for name in PipelineConfig.model_fields}


def _values(value: Any) -> Any:
    fields = getattr(type(value), "model_fields", None)
    return {name: _values(getattr(value, name)) for name in fields} if fields else value
