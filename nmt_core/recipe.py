"""Recipes: YAML files that hold the differences from the defaults of `config.py`, and nothing else."""

import difflib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, cast, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nmt_core.config import PipelineConfig, SearchConfig
from nmt_core.errors import ConfigError


def recipe_names() -> list[str]:
    """Names of the recipes that come with the package, sorted."""
    folder = resources.files("nmt_core") / "recipes"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_recipe(recipe: str, overrides: Iterable[str] = ()) -> PipelineConfig:
    """Read a recipe by name or path, apply `section.key=value` overrides, and validate the whole.

    Raises:
        ConfigError: the recipe does not exist or is not YAML, or a key or a value is wrong. All wrong places are named.
    """
    values = _read(recipe)
    for override in overrides:
        _apply(values, override)
    _name_the_lock_file(values, recipe)
    return _validated(values, f"recipe {recipe}")


def with_sections(config: PipelineConfig, sections: Mapping[str, Any]) -> PipelineConfig:
    """A recipe with other values for some of its sections, validated as a whole.

    Raises:
        ConfigError: they do not go together with the rest.
    """
    return _validated(config.model_dump() | dict(sections), f"recipe {config.name}")


def _validated(values: Mapping[str, Any], what: str) -> PipelineConfig:
    try:
        return PipelineConfig.model_validate(values)
    except ValidationError as error:
        lines = [_explain(detail) for detail in error.errors()]
        raise ConfigError(f"{what}: " + "; ".join(lines)) from None


def override_search(search: SearchConfig, overrides: Iterable[str]) -> SearchConfig:
    """A search with `search.key=value` overrides.

    Raises:
        ConfigError: a key or a value is wrong, or of another section.
    """
    values = {"search": search.model_dump()}
    for override in overrides:
        _apply(values, override)
        if values.keys() != {"search"} or not isinstance(values["search"], dict):
            raise ConfigError(f"--set {override}: a model that is there has only its search to set: search.KEY=VALUE")
    try:
        return SearchConfig.model_validate(values["search"])
    except ValidationError as error:
        details = ({**detail, "loc": ("search", *detail["loc"])} for detail in error.errors())
        raise ConfigError("; ".join(_explain(cast(ErrorDetails, detail)) for detail in details)) from None


def _read(recipe: str) -> dict[str, Any]:
    path = Path(recipe)
    if recipe in recipe_names():
        text = (resources.files("nmt_core") / "recipes" / f"{recipe}.yaml").read_text(encoding="utf-8")
    elif path.suffix in {".yaml", ".yml"} or path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"recipe {recipe}: cannot be read ({error}): give the path of a YAML file") from None
    else:
        close = difflib.get_close_matches(recipe, recipe_names(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(f"recipe {recipe!r} is unknown: {hint}the recipes are {', '.join(recipe_names())}, or a path")
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"recipe {recipe}: not valid YAML ({' '.join(str(error).split())}): mend that line") from None
    if not isinstance(values, dict):
        raise ConfigError(f"recipe {recipe}: holds {type(values).__name__}, not sections: write `name: ...` and so on")
    return values


def _apply(values: dict[str, Any], override: str) -> None:
    """Set one `section.key=value` in the raw values; numbers in the path are positions in a list."""
    key, equals, text = override.partition("=")
    steps = key.strip().split(".")
    if not equals or not all(steps):
        raise ConfigError(f"--set {override}: must read section.key=value")
    try:
        value = yaml.safe_load(text) if text.strip() else text.strip()
    except yaml.YAMLError:
        raise ConfigError(f"--set {override}: the value is not valid YAML: put it in quotes") from None
    place: Any = values
    try:
        for step in steps[:-1]:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        last = steps[-1]
        place[int(last) if isinstance(place, list) else last] = value
    except (TypeError, AttributeError, ValueError, IndexError):
        raise ConfigError(
            f"--set {override}: there is no such place in the recipe: check the part before '='"
        ) from None


def _name_the_lock_file(values: dict[str, Any], recipe: str) -> None:
    """Beside a recipe that is a file, by its name; a recipe of the package has none, for it pins what it fetches."""
    corpus = values.get("corpus")
    if recipe not in recipe_names() and isinstance(corpus, dict) and not corpus.get("lock") and not corpus.get("toy"):
        file = Path(recipe).absolute()
        corpus["lock"] = str(file.with_name(f"{file.name.removesuffix(file.suffix)}.lock.json"))


def _explain(detail: ErrorDetails) -> str:
    """One pydantic error as: dotted path, value, what is wrong, remedy."""
    path = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        known = _keys_at(detail["loc"][:-1])
        close = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"the keys here are {', '.join(known)}"
        return f"{path} is not a key: {hint}"
    if detail["type"] == "missing":
        return f"{path} is missing: set it"
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "value_error" and isinstance(detail["input"], (Mapping, BaseModel)):
        return f"{path} {message}".strip()
    return f"{path}={detail['input']!r}: {message[:1].lower()}{message[1:]}"


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    """Keys that the section at `location` knows."""
    section: type[BaseModel] = PipelineConfig
    for part in location:
        if isinstance(part, int):
            continue
        annotation = section.model_fields[part].annotation
        candidates = [annotation, *get_args(annotation)]
        section = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), section)
    return list(section.model_fields)
