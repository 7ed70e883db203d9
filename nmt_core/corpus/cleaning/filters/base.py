"""Define a filter: a name, an option, and two expressions over a table of normalised pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from nmt_core.config import SIDES, LanguagesConfig


@dataclass(frozen=True)
class Filter:
    """A reason to drop a pair, with the expression that decides."""

    reason: str
    """Name of the reason in reports and in the table of dropped pairs."""
    knob: str
    """Option to change in order to keep more pairs, as a dotted key of the recipe, or advice."""
    drop: pl.Expr
    """Boolean over the columns source, target, source_key, target_key and the step's measures. Null keeps the pair."""
    value: pl.Expr
    """Measurement that decided, over the same columns. It is evaluated only for dropped pairs."""


@dataclass(frozen=True)
class Step:
    """Filters that are applied together to the pairs kept by all earlier steps."""

    filters: Sequence[Filter]
    measures: Sequence[pl.Expr] = ()
    """Named expressions that the filters use, each computed once. A later expression may use earlier ones."""


def either(measure: Callable[[pl.Expr], pl.Expr]) -> list[pl.Expr]:
    """Return a measure for each side."""
    return [measure(pl.col(side)) for side in SIDES]


def first_side(faults: Sequence[pl.Expr]) -> pl.Expr:
    """Return the name of the first side that has the fault."""
    return pl.coalesce(pl.when(fault).then(pl.lit(side)) for fault, side in zip(faults, SIDES, strict=True))


def languages_by_side(languages: LanguagesConfig) -> dict[str, str]:
    """Return the ISO 639 code of the language of each side."""
    return {"source": languages.source, "target": languages.target}
