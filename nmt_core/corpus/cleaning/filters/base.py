"""Define a filter: a name, an option, and two expressions over a table of normalised pairs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from nmt_core.config import SIDES, LanguagesConfig, Side


@dataclass(frozen=True)
class Scale:
    """Measure that a filter compares with a threshold, for the preview, where thresholds can be moved."""

    option: str
    """Option of `FilterConfig` that holds the threshold."""
    values: Mapping[str, pl.Expr]
    """Measure of each side, or of the pair under the name `pair`. Null keeps the pair."""
    limits: Mapping[str, float]
    """Threshold of each measure."""
    is_minimum: bool
    """True if smaller values are dropped, and False if larger ones are."""


@dataclass(frozen=True)
class Filter:
    """A reason to drop a pair, with the expression that decides."""

    reason: str
    """Name of the reason in reports and in the table of dropped pairs."""
    remedy: str
    """Option to change in order to keep more pairs, as a dotted key of the recipe, or advice."""
    drop: pl.Expr
    """Boolean over the columns source, target, source_key, target_key and the step's measures. Null keeps the pair."""
    value: pl.Expr
    """Measurement that decided, over the same columns. It is evaluated only for dropped pairs."""
    scale: Scale | None = None
    """Measure and thresholds, if the filter has any. None means that it is only on or off."""


@dataclass(frozen=True)
class Step:
    """Filters that are applied together to the pairs kept by all earlier steps."""

    filters: Sequence[Filter]
    measures: Sequence[pl.Expr] = ()
    """Named expressions that the filters use, each computed once. A later expression may use earlier ones."""


def filter_by(reason: str, scale: Scale) -> Filter:
    """Return the filter that a scale describes. Its value is the measure of the side that fails most."""
    faults = {
        side: value < scale.limits[side] if scale.is_minimum else value > scale.limits[side]
        for side, value in scale.values.items()
    }
    failing = [pl.when(fault).then(scale.values[side]) for side, fault in faults.items()]
    value = pl.min_horizontal(failing) if scale.is_minimum else pl.max_horizontal(failing)
    return Filter(reason, f"clean.{scale.option}", pl.any_horizontal(*faults.values()), value, scale)


def either(measure: Callable[[pl.Expr], pl.Expr], sides: Sequence[Side] = SIDES) -> list[pl.Expr]:
    """Return a measure for each side."""
    return [measure(pl.col(side)) for side in sides]


def first_side(faults: Sequence[pl.Expr], sides: Sequence[Side] = SIDES) -> pl.Expr:
    """Return the name of the first side that has the fault."""
    return pl.coalesce(pl.when(fault).then(pl.lit(side)) for fault, side in zip(faults, sides, strict=True))


def languages_by_side(languages: LanguagesConfig) -> dict[Side, str]:
    """Return the ISO 639 code of the language of each side."""
    return {"source": languages.source, "target": languages.target}
