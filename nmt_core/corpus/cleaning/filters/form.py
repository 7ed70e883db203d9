"""Filter pairs by form: a side that is empty, too short, too long or of the wrong characters, or unequal lengths."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from nmt_core.config import SIDES, FilterConfig, Side
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning.filters.base import Filter, Scale, either, filter_by, first_side
from nmt_core.corpus.cleaning.filters.scripts import SCRIPT_OF_LANGUAGE
from nmt_core.corpus.cleaning.thresholds import CleanRules


def filters(rules: CleanRules) -> list[Filter]:
    """Return the active filters in the order in which they are applied."""
    return [
        _empty(rules),
        _broken_encoding(rules),
        *_word_counts(rules),
        *_character_counts(rules),
        _long_word(rules),
        _few_letters(rules),
    ]


def filters_by_language(rules: CleanRules) -> list[Filter]:
    """Return the filters that depend on the languages. Copies fail them too, so copies are checked earlier."""
    ratio = [_length_ratio(rules.thresholds)] if len(rules.sides) == len(SIDES) else []
    return [*_wrong_script(rules), *ratio]


def _empty(rules: CleanRules) -> Filter:
    empty = either(lambda text: text == "", rules.sides)
    first = first_side(empty, rules.sides)
    return Filter("empty", "the corpus, where a side holds no text", pl.any_horizontal(empty), first)


def _broken_encoding(rules: CleanRules) -> Filter:
    broken = either(normalize.is_broken, rules.sides)
    first = first_side(broken, rules.sides)
    return Filter("broken_encoding", "the corpus's encoding", pl.any_horizontal(broken), first)


def _scale(rules: CleanRules, option: str, values: Mapping[Side, pl.Expr]) -> Scale:
    limits: dict[str, float] = {side: rules.thresholds.limit(option, side) for side in rules.sides}
    return Scale(option, {str(side): value for side, value in values.items()}, limits, option.startswith("min_"))


def _word_counts(rules: CleanRules) -> list[Filter]:
    counts = {side: normalize.word_count(pl.col(side), language) for side, language in rules.codes.items()}
    return [
        filter_by("too_few_words", _scale(rules, "min_words", counts)),
        filter_by("too_many_words", _scale(rules, "max_words", counts)),
    ]


def _character_counts(rules: CleanRules) -> list[Filter]:
    counts = {side: pl.col(side).str.len_chars() for side in rules.sides}
    return [
        filter_by("too_few_characters", _scale(rules, "min_characters", counts)),
        filter_by("too_many_characters", _scale(rules, "max_characters", counts)),
    ]


def _long_word(rules: CleanRules) -> Filter:
    def too_long(side: Side, language: str) -> pl.Expr:
        most = rules.thresholds.limit("max_word_characters", side)
        return pl.col(side).str.extract(f"({normalize.long_word_pattern(language, most + 1)})")

    def longest(side: Side, language: str) -> pl.Expr:
        words = pl.col(side).str.extract_all(normalize.long_word_pattern(language, 1))
        return words.list.eval(pl.element().str.len_chars()).list.max()

    first = pl.coalesce(too_long(side, language) for side, language in rules.codes.items())
    lengths = {side: longest(side, language) for side, language in rules.codes.items()}
    scale = _scale(rules, "max_word_characters", lengths)
    return Filter("long_word", "clean.max_word_characters", first.is_not_null(), first.str.len_chars(), scale)


def _letters(text: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the numbers of letters, and of characters other than spaces, in normalised text.

    Characters that are not letters are rarer than letters, and so faster to count.
    """
    characters = text.str.len_chars() - text.str.count_matches(" ", literal=True)
    return characters - text.str.count_matches(r"[^\p{Alphabetic} ]"), characters


def _few_letters(rules: CleanRules) -> Filter:
    def share(text: pl.Expr) -> pl.Expr:
        letters, characters = _letters(text)
        return letters / characters

    shares = {side: share(pl.col(side)) for side in rules.sides}
    return _rounded(filter_by("few_letters", _scale(rules, "min_letter_share", shares)))


def _wrong_script(rules: CleanRules) -> list[Filter]:
    def share(side: str, script: str) -> pl.Expr:
        letters, _ = _letters(pl.col(side))
        foreign = pl.col(side).str.count_matches(rf"[\p{{Alphabetic}}--[{script}]]")
        return pl.when(letters > 0).then(1 - foreign / letters).otherwise(1.0)

    shares = {
        side: share(side, SCRIPT_OF_LANGUAGE[language])
        for side, language in rules.codes.items()
        if language in SCRIPT_OF_LANGUAGE
    }
    return [_rounded(filter_by("wrong_script", _scale(rules, "min_script_share", shares)))] if shares else []


def _length_ratio(config: FilterConfig) -> Filter:
    source, target = (pl.col(side).str.len_chars() for side in SIDES)
    weighted = source / config.expected_length_ratio
    ratio = pl.max_horizontal(weighted / target, target / weighted)
    scale = Scale("max_length_ratio", {"pair": ratio}, {"pair": config.max_length_ratio}, is_minimum=False)
    return _rounded(filter_by("length_ratio", scale))


def _rounded(rule: Filter) -> Filter:
    return replace(rule, value=rule.value.round(2))
