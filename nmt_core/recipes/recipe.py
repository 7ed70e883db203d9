"""Recipes: YAML files that hold only the differences from the defaults of `config/`.

A recipe may instead hold the differences from another recipe, its base: `base: wmt14-en-de-base`.
"""

import copy
import difflib
import functools
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from nmt_core.config import PipelineConfig, SearchConfig
from nmt_core.config.faults import explain_fault, search_with
from nmt_core.config.renamed import KEYS, VALUES, earlier_names
from nmt_core.errors import ConfigError, words_of
from nmt_core.store.atomic import write_atomically

TEXT = ("languages", "corpus", "clean", "split", "mix", "synthesis", "augmentation", "tokenizer", "encode")
"""Sections that decide the text and its tokens."""
_SUFFIXES = {".yaml", ".yml"}
_BETWEEN_CHANGES = re.compile(rf"\n|,(?=\s*(?:{'|'.join(PipelineConfig.model_fields)})\.[\w.-]+\s*=)")
_OWN = ("name", "description")  # never inherited: a recipe must not be mistaken for its base


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with the package, sorted."""
    return sorted(_packaged())


@functools.cache
def _packaged() -> dict[str, Traversable]:
    """Return the recipe files of the package by name. The folder `papers` holds the rows of published tables."""
    folder = resources.files("nmt_core") / "recipes"
    entries = [*folder.iterdir(), *(folder / "papers").iterdir()]
    return {entry.name.removesuffix(".yaml"): entry for entry in entries if entry.name.endswith(".yaml")}


def load_recipe(recipe: str, overrides: Iterable[str] = (), text_of: str | None = None) -> PipelineConfig:
    """Read a recipe by name or path, apply `section.key=value` overrides, and validate the result.

    Args:
        recipe: name or path.
        overrides: values that replace the recipe's values.
        text_of: another recipe, whose sections `TEXT` replace the same sections of this one, or None.

    Raises:
        ConfigError: the recipe does not exist or is not YAML, or a key or a value is wrong. The message names every
            wrong place.
    """
    values = _read(recipe)
    if text_of is not None:
        text_values = _read(text_of)
        values = {section: value for section, value in values.items() if section not in TEXT}
        values |= {section: text_values[section] for section in TEXT if section in text_values}
    for override in overrides:
        _apply(values, override)
    _name_the_lock_file(values, text_of or recipe)
    return _validated(values, f"recipe {recipe}")


def split_changes(text: str) -> list[str]:
    """Split a text into `section.key=value` overrides, which are separated by line breaks or commas.

    A comma within a value separates nothing: the path of an option and `=` must follow a comma that separates.
    """
    return [part.strip() for part in _BETWEEN_CHANGES.split(text) if part.strip()]


def with_changes(values: PipelineConfig | Mapping[str, Any], changes: str) -> PipelineConfig:
    """Return a recipe from the values of a form, with `section.key=value` overrides, and validate it as a whole.

    Args:
        values: values of the recipe, or the recipe itself.
        changes: overrides as `split_changes` reads them.

    Raises:
        ConfigError: a key or a value is wrong. The message names every wrong place.
    """
    if isinstance(values, PipelineConfig):
        if not changes.strip():
            return values
        values = values.model_dump(mode="json")
    changed = copy.deepcopy(dict(values))
    for override in split_changes(changes):
        _apply(changed, override)
    return _validated(changed, f"recipe {changed.get('name', '')}".strip())


def _validated(values: Mapping[str, Any], what: str) -> PipelineConfig:
    if renamed := list(earlier_names(values)):
        raise ConfigError(f"{what}: {'; '.join(renamed)}: `nmt recipes --upgrade FILE` rewrites a recipe")
    try:
        return PipelineConfig.model_validate(values)
    except ValidationError as error:
        lines = [explain_fault(detail) for detail in error.errors()]
        raise ConfigError(f"{what}: " + "; ".join(lines)) from None


def upgrade_recipe(file: Path) -> list[str]:
    """Rewrite the recipe in a file so that it uses the present names of options and values.

    Comments and layout stay. A base recipe is a file of its own and is not changed.

    Returns:
        The changes, one line for each option or value. Empty if the recipe is up to date.

    Raises:
        ConfigError: the file cannot be read or written, is not YAML, or holds a name in a form that can only be changed
            by hand. The file is then unchanged.
    """
    changes = list(earlier_names(_parse(str(file))))
    text = file.read_text(encoding="utf-8")
    for earlier, present in KEYS.items():
        text = _replaced(text, rf"{earlier}(?=[\"']?\s*:)", present)
    for key, values in VALUES.items():
        for earlier, present in values.items():
            text = _replaced(
                text, rf"(?P<key>{key}[\"']?\s*:\s*)(?P<quote>[\"']?){earlier}(?P=quote)(?![\w-])", present
            )
    if left := list(earlier_names(yaml.safe_load(text))):
        raise ConfigError(f"recipe {file}: cannot be rewritten: change this by hand: {'; '.join(left)}")
    if changes:
        try:
            write_atomically(file, text)
        except OSError as error:
            raise ConfigError(f"recipe {file}: cannot be written ({error.strerror}): check its permissions") from None
    return changes


def _replaced(text: str, pattern: str, present: str) -> str:
    """Replace a name in the lines of a recipe, but not in their comments."""
    compiled = re.compile(rf"(?m)^(?P<before>[^#\n]*?(?<![\w.])){pattern}")
    while match := compiled.search(text):
        kept = match.groupdict().get("key") or ""
        text = text[: match.start()] + match["before"] + kept + present + text[match.end() :]
    return text


def override_search(search: SearchConfig, overrides: Iterable[str]) -> SearchConfig:
    """Return a search with `search.key=value` overrides.

    Raises:
        ConfigError: a key or a value is wrong, or belongs to another section.
    """
    values = {"search": search.model_dump()}
    for override in overrides:
        _apply(values, override)
        if values.keys() != {"search"} or not isinstance(values["search"], dict):
            raise ConfigError(f"--set {override}: only the search of a finished model can be set: use search.KEY=VALUE")
    return search_with(search, values["search"])


def _read(recipe: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the values of a recipe, merged onto the values of its base.

    Args:
        recipe: name or path.
        above: recipes that have this one as their base, directly or indirectly. The requested recipe comes first.
    """
    values = _parse(recipe)
    if "base" not in values:
        return values
    base, chain = values.pop("base"), (*above, recipe)
    if not isinstance(base, str) or not base:
        raise ConfigError(f"recipe {recipe}: base={base!r}: write the name of one recipe, or the path of its file")
    beside = Path(recipe).parent / base  # an absolute path stays as it is
    if base not in recipe_names() and (beside.suffix in _SUFFIXES or beside.is_file()):
        base = str(beside)
    if _same(base) in map(_same, chain):
        raise ConfigError(
            f"recipe {recipe}: base={base} is circular ({' -> '.join((*chain, base))}): remove one of these bases"
        )
    try:
        inherited = _read(base, chain)
    except ConfigError as error:
        raise ConfigError(f"recipe {recipe}: base: {error}") from None
    return _merged({name: value for name, value in inherited.items() if name not in _OWN}, values)


def _same(recipe: str) -> str:
    """Return one spelling for each recipe, so that names and paths can be compared."""
    return recipe if recipe in recipe_names() else str(Path(recipe).resolve())


def _merged(inherited: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Merge the values of two recipes, section by section. A list is replaced as a whole."""
    values = inherited | own
    for name in inherited.keys() & own.keys():
        if isinstance(inherited[name], dict) and isinstance(own[name], dict):
            values[name] = _merged(inherited[name], own[name])
    return values


def _parse(recipe: str) -> dict[str, Any]:
    """Return the values in one recipe file, without its base."""
    path = Path(recipe)
    if recipe in recipe_names():
        text = _packaged()[recipe].read_text(encoding="utf-8")
    elif path.suffix in _SUFFIXES or path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"recipe {recipe}: cannot be read ({error}): give the path of a YAML file") from None
    else:
        close = difflib.get_close_matches(recipe, recipe_names(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        known = ", ".join(recipe_names())
        raise ConfigError(f"recipe {recipe!r} is unknown: {hint}give the path of a file, or one of {known}")
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"recipe {recipe}: not valid YAML ({words_of(error, most=1_000)}): fix that line") from None
    if not isinstance(values, dict):
        raise ConfigError(
            f"recipe {recipe}: holds {type(values).__name__}, not sections: write lines such as `name: ...`"
        )
    return values


def _apply(values: dict[str, Any], override: str) -> None:
    """Set one `section.key=value` in the raw values. Numbers in the path are positions in a list."""
    key, equals, text = override.partition("=")
    steps = key.strip().split(".")
    if not equals or not all(steps):
        raise ConfigError(f"--set {override}: must read section.key=value")
    try:
        value = yaml.safe_load(text) if text.strip() else text.strip()
    except yaml.YAMLError:
        raise ConfigError(f"--set {override}: the value is not valid YAML: put it in quotes") from None
    if renamed := list(earlier_names(functools.reduce(lambda inner, step: {step: inner}, reversed(steps), value))):
        raise ConfigError(f"--set {override}: {'; '.join(renamed)}: use the new name")
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
    """Set the lock file of a recipe file: a file of the same name beside it.

    A recipe of the package gets none, because it pins what it fetches.
    """
    corpus = values.get("corpus")
    if recipe not in recipe_names() and isinstance(corpus, dict) and not corpus.get("lock") and not corpus.get("toy"):
        file = Path(recipe).absolute()
        corpus["lock"] = str(file.with_name(f"{file.name.removesuffix(file.suffix)}.lock.json"))
