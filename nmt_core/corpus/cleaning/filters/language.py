"""Filter pairs by language: drop a pair with a side that is not in the expected language."""

import polars as pl

from nmt_core.corpus.cleaning import language_id
from nmt_core.corpus.cleaning.filters.base import Filter, Step, languages_by_side
from nmt_core.corpus.cleaning.thresholds import CleanRules


def steps(rules: CleanRules) -> list[Step]:
    """Return one step, or none if identification is off or supports neither language."""
    sides = languages_by_side(rules.languages)
    least = {side: rules.thresholds.limit("min_language_probability", side) for side in rules.sides}
    known = [side for side in rules.sides if least[side] and language_id.is_known(sides[side])]
    if not known:
        return []
    other = {"source": sides["target"], "target": sides["source"]}
    measures, wrong, found = [], [], []
    for side in known:
        identifier = language_id.Identifier(sides[side], other[side], least[side])
        verdict = pl.col(f"{side}_verdict").struct
        language = pl.col(f"{side}_language")
        measures.append(
            pl.col(side)
            .map_batches(identifier.identify, return_dtype=language_id.VERDICT, is_elementwise=True)
            .alias(f"{side}_verdict")
        )
        measures.append(verdict.field("language").alias(f"{side}_language"))
        wrong.append(~verdict.field("is_expected"))
        found.append(pl.format(f"{side} {{}} {{}}", language, verdict.field("probability").round(2)))
    value = pl.coalesce(pl.when(is_wrong).then(shown) for is_wrong, shown in zip(wrong, found, strict=True))
    rule = Filter("wrong_language", "clean.min_language_probability", pl.any_horizontal(wrong), value)
    return [Step([rule], measures)]
