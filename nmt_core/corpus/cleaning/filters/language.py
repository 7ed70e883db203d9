"""Filter pairs by language: drop a pair with a side that is not in the expected language."""

from dataclasses import dataclass

import polars as pl

from nmt_core.config import OTHER_SIDE, SIDES, Side
from nmt_core.corpus.cleaning import identifiers, language_id
from nmt_core.corpus.cleaning.filters.base import Filter, Step, languages_by_side
from nmt_core.corpus.cleaning.thresholds import CleanRules


def steps(rules: CleanRules) -> list[Step]:
    """Return one step, or none if identification is off or supports neither language.

    Raises:
        ConfigError: the recipe's own identifier cannot be loaded.
    """
    verdicts = _verdicts(rules)
    if not verdicts:
        return []
    measures, wrong, shown = [], [], []
    for side, verdict in verdicts.items():
        measures.append(verdict.alias(f"{side}_verdict"))
        fields = pl.col(f"{side}_verdict").struct
        measures.append(fields.field("language").alias(f"{side}_language"))
        wrong.append(~fields.field("is_expected"))
        language = pl.col(f"{side}_language")
        shown.append(pl.format(f"{side} {{}} {{}}", language, fields.field("probability").round(2)))
    if len(verdicts) == len(SIDES):
        source, target = (pl.col(f"{side}_verdict").struct.field("lean") for side in SIDES)
        is_swapped = (source > 0) & (target > 0) & (source + target > language_id.SWAPPED)
        wrong.append(is_swapped.fill_null(False))
        shown.append(pl.lit("swapped"))
    value = pl.coalesce(pl.when(is_wrong).then(text) for is_wrong, text in zip(wrong, shown, strict=True))
    rule = Filter("wrong_language", "clean.min_language_probability", pl.any_horizontal(wrong), value)
    return [Step([rule], measures)]


@dataclass(frozen=True)
class _Identification:
    """Function of polars that identifies one side."""

    identifier: language_id.Identifier | identifiers.ByRecipe
    side: Side

    def __call__(self, sides: pl.Series) -> pl.Series:
        table = sides.struct.unnest()
        return self.identifier.identify(table[self.side], table[OTHER_SIDE[self.side]])


def _verdicts(rules: CleanRules) -> dict[Side, pl.Expr]:
    """Return the verdict on each side whose language is identified, as `language_id.VERDICT`."""
    verdicts: dict[Side, pl.Expr] = {}
    for side in rules.sides:
        if identifier := _identifier_of(rules, side):
            function = _Identification(identifier, side)
            verdicts[side] = pl.struct(SIDES).map_batches(
                function, return_dtype=language_id.VERDICT, is_elementwise=True
            )
    return verdicts


def _identifier_of(rules: CleanRules, side: Side) -> language_id.Identifier | identifiers.ByRecipe | None:
    """Return what identifies the text of a side, or None if identification is off for the side or nothing can.

    Raises:
        ConfigError: the recipe's own identifier cannot be loaded.
    """
    codes = languages_by_side(rules.languages)
    expected, other = codes[side], codes[OTHER_SIDE[side]]
    least = rules.thresholds.limit("min_language_probability", side)
    if not least:
        return None
    if rules.clean.identifier:
        return identifiers.ByRecipe(expected, other, least, rules.clean.identifier, rules.clean.identifier_model)
    return language_id.Identifier(expected, other, least) if language_id.is_known(expected) else None
