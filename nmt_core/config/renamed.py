"""Earlier names of options and values, so that what previous versions of this package have stored stays readable.

A recipe must use the present names. For an earlier one, `nmt_core.recipes.recipe` reports the new name, and `nmt
recipes --upgrade` rewrites the file. Everything else that was stored under an earlier name is read as it is: runs,
bundles, weights, parameters of deployments. Fingerprints use the first name of each option, so that a new name does not
make any artifact again.
"""

from collections.abc import Iterator, Mapping
from typing import Any

KEYS = {
    "characters_per_character": "expected_length_ratio",
    "slice_tokens": "micro_batch_tokens",
}
"""Present name of each renamed option, by its earlier name."""

VALUES = {
    "built_in_sentences": {"no worse": "no_worse"},
    "context": {"every step": "every_step", "first state": "first_state"},
    "punctuation": {"as is": "as_is", "Moses": "moses"},
    "tied_embeddings": {"three-way": "three_way", "two-way": "two_way"},
}
"""Present name of each renamed value, by option and earlier name."""

_FIRST_KEYS = {present: earlier for earlier, present in KEYS.items()}
_FIRST_VALUES = {key: {present: earlier for earlier, present in values.items()} for key, values in VALUES.items()}


def with_present_names(values: Any) -> Any:
    """Return stored values, of any depth, under the present names."""
    return _renamed(values, KEYS, VALUES)


def with_first_names(values: Any) -> Any:
    """Return values, of any depth, under the first name that each option had."""
    return _renamed(values, _FIRST_KEYS, _FIRST_VALUES)


def counted_values(values: Any) -> Any:
    """Return values, of any depth, as they count in a fingerprint: under their first names and with first defaults."""
    return with_first_names(_with_first_shortlist(values))


def _with_first_shortlist(values: Any) -> Any:
    """Return values, of any depth, with `search.shortlist` as it was when it was true or by default false."""
    if isinstance(values, list | tuple):
        return [_with_first_shortlist(value) for value in values]
    if not isinstance(values, dict):
        return values
    found = {key: _with_first_shortlist(value) for key, value in values.items()}
    if {"shortlist", "beam_size"} <= found.keys():  # a section of searches; `export.shortlist` is another option
        found["shortlist"] = {"auto": False, "always": True}.get(found["shortlist"], found["shortlist"])
    return found


def _renamed(values: Any, keys: Mapping[str, str], texts: Mapping[str, Mapping[str, str]]) -> Any:
    if isinstance(values, list | tuple):
        return [_renamed(value, keys, texts) for value in values]
    if not isinstance(values, dict):
        return values
    return {
        keys.get(key, key): texts[key].get(value, value)
        if _is_renamed_text(key, value)
        else _renamed(value, keys, texts)
        for key, value in values.items()
    }


def earlier_names(values: Any, path: str = "") -> Iterator[str]:
    """Yield each renamed option and value of a recipe, as `train.slice_tokens is now train.micro_batch_tokens`.

    Args:
        values: recipe as it was read, of any depth.
        path: dotted path of `values` in the recipe.
    """
    if isinstance(values, list | tuple):
        for number, value in enumerate(values):
            yield from earlier_names(value, f"{path}.{number}")
    if not isinstance(values, dict):
        return
    for key, value in values.items():
        place = f"{path}.{key}".removeprefix(".")
        if key in KEYS:
            yield f"{place} is now {f'{path}.{KEYS[key]}'.removeprefix('.')}"
        elif _is_renamed_text(key, value) and value in VALUES[key]:
            yield f"{place}={value} is now {place}={VALUES[key][value]}"
        else:
            yield from earlier_names(value, place)


def _is_renamed_text(key: str, value: Any) -> bool:
    return key in VALUES and isinstance(value, str)
