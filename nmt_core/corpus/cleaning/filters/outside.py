"""Filter pairs by external functions that the recipe names, and by thresholds on built-in and external scores."""

import polars as pl

from nmt_core.config import SIDES, ScoreRule
from nmt_core.corpus.cleaning import cross_entropy, scorers
from nmt_core.corpus.cleaning.filters.base import Filter, Step
from nmt_core.corpus.cleaning.thresholds import CleanRules


def steps(rules: CleanRules) -> list[Step]:
    """Return one step for each function: filters first, then scorers, which are usually slower.

    Raises:
        ConfigError: a name is unknown.
    """
    further = [Step([_further(name)]) for name in rules.clean.filters]
    return further + [_score(number, rule, rules.selection) for number, rule in enumerate(rules.clean.scores)]


def score_columns(rules: CleanRules) -> list[str]:
    """Return the names of the columns that hold the scores, in the order of `clean.scores`."""
    return [f"score_{number}" for number, _ in enumerate(rules.clean.scores)]


def _further(name: str) -> Filter:
    return Filter(name, "clean.filters", _asked(scorers.find("filters", name), pl.Boolean), pl.lit(None, pl.String))


def _score(number: int, rule: ScoreRule, models: str) -> Step:
    column = f"score_{number}"
    score = pl.col(column)
    function = cross_entropy.scorer(models) if cross_entropy.is_built_in(rule) else scorers.scorer_of(rule)
    scored = _asked(function, pl.Float64).alias(column)
    is_wrong = [score.is_null() | score.is_nan()]  # the pair has no score
    if rule.min_score is not None:
        is_wrong.append(score < rule.min_score)
    if rule.max_score is not None:
        is_wrong.append(score > rule.max_score)
    drop = pl.any_horizontal(is_wrong) if len(is_wrong) > 1 else pl.lit(False)
    return Step([Filter(f"score:{rule.scorer}", f"clean.scores.{number}", drop, score.round(4))], [scored])


def _asked(function: scorers.External, returned: type[pl.DataType]) -> pl.Expr:
    return pl.struct(SIDES).map_batches(lambda pairs: function(pairs.struct.unnest()), return_dtype=returned)
