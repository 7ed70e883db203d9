"""What somebody else wrote: scorers of pairs and further filters, found by name.

A name is an entry point of an installed package - group `nmt_pipeline.scorers` or `nmt_pipeline.filters` - or a
function as module:function. It is called with a polars table of normalised pairs, columns source and target, and
returns a polars Series, one value for each pair in their order: a number from a scorer; from a filter true for a pair
to drop. It may be called in any process and any number of times, for any number of pairs, so what it says of a pair
must hang on nothing but that pair.
"""

import functools
import importlib
from collections.abc import Callable
from importlib import metadata
from typing import Literal

import polars as pl

from nmt_core.errors import ConfigError

Kind = Literal["scorers", "filters"]
External = Callable[[pl.DataFrame], pl.Series]


@functools.lru_cache(maxsize=64)
def find(kind: Kind, name: str) -> External:
    """The function of this name, wrapped so that what it returns is checked.

    Raises:
        ConfigError: there is no such function, or it cannot be imported; later, when it is called: it does not return
            one value of the right type for each pair.
    """
    function = _load(kind, name)
    if not callable(function):
        raise ConfigError(f"{_place(kind, name)}: is a {type(function).__name__}, not a function: name another")

    def checked(pairs: pl.DataFrame) -> pl.Series:
        return _checked(function(pairs), pairs.height, kind, name)

    return checked


def version(kind: Kind, name: str) -> str:
    """Version of the package that has the entry point of this name; empty for module:function, and for unknown ones."""
    found = metadata.entry_points(group=f"nmt_pipeline.{kind}", name=name)
    return next((point.dist.version for point in found if point.dist), "")


def _load(kind: Kind, name: str) -> object:
    group = f"nmt_pipeline.{kind}"
    module, colon, attribute = name.partition(":")
    try:
        if colon:
            return getattr(importlib.import_module(module), attribute)
        points = metadata.entry_points(group=group)
        if name in points.names:
            return points[name].load()
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{_place(kind, name)}: {error}: install its package, or correct the name") from error
    known = ", ".join(sorted(points.names)) or "none"
    raise ConfigError(
        f"{_place(kind, name)}: no entry point of the group {group} has this name (installed: {known}): install the "
        "package that has it, or give a function as module:function"
    )


def _checked(result: object, pairs: int, kind: Kind, name: str) -> pl.Series:
    wanted = "a polars Series with " + ("a number" if kind == "scorers" else "true or false") + " for each pair"
    if not isinstance(result, pl.Series):
        found = f"a {type(result).__name__}"
    elif len(result) != pairs:
        found = f"{len(result):,} values for {pairs:,} pairs"
    elif kind == "scorers" and result.dtype.is_numeric():
        return result.cast(pl.Float64)
    elif kind == "filters" and result.dtype == pl.Boolean:
        return result
    else:
        found = f"values of type {result.dtype}"
    raise ConfigError(f"{_place(kind, name)}: returned {found}: it must return {wanted}")


def _place(kind: Kind, name: str) -> str:
    return f"clean.{'scores' if kind == 'scorers' else 'filters'}: {name!r}"
