"""What a filter is: a name, a knob, and two expressions over a table of normalised pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from nmt_core.config import SIDES, LanguagesConfig


@dataclass(frozen=True)
class Filter:
    """One reason to drop a pair."""

    reason: str
    """Its name in reports and in the table of dropped pairs."""
    knob: str
    """What to change to keep more: a dotted key of the recipe, or advice."""
    drop: pl.Expr
    """Boolean over the columns source, target, source_key, target_key and the step's measures; null keeps."""
    value: pl.Expr
    """The measure that decided, over the same columns; evaluated for the dropped pairs alone."""


@dataclass(frozen=True)
class Step:
    """Filters that are asked together, of the pairs that all earlier steps keep."""

    filters: Sequence[Filter]
    measures: Sequence[pl.Expr] = ()
    """Named expressions that the filters look at, each computed once; one may look at those before it."""


def either(measure: Callable[[pl.Expr], pl.Expr]) -> list[pl.Expr]:
    """A measure of each side."""
    return [measure(pl.col(side)) for side in SIDES]


def first_side(faults: Sequence[pl.Expr]) -> pl.Expr:
    """Name of the first side that has the fault."""
    return pl.coalesce(pl.when(fault).then(pl.lit(side)) for fault, side in zip(faults, SIDES, strict=True))


def languages_by_side(languages: LanguagesConfig) -> dict[str, str]:
    """ISO 639 code of the language by the name of the side."""
    return {"source": languages.source, "target": languages.target}
