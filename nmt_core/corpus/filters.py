"""Filters: each keeps a pair or drops it for a named reason. The first that fires gives the reason.

A filter looks at normalised text. It is two polars expressions - whether to drop, and the measure that decided - so
that all filters run in one lazy plan. Every threshold is a knob of `CleanConfig`; the languages only say which script
and which words to expect.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus import normalize
from nmt_core.corpus.sources import SIDES

_SCRIPTS = {
    r"\p{Latin}": "af az ca cs cy da de en eo es et eu fi fil fr ga gl hr ht hu id is it la lb lt lv ms mt nb nl nn no "
    "pl pt ro sk sl so sq sv sw tl tr uz vi xh yo zu",
    r"\p{Cyrillic}": "be bg kk ky mk mn ru tg tt uk",
    r"\p{Arabic}": "ar fa ps sd ug ur",
    r"\p{Devanagari}": "hi mr ne sa",
    r"\p{Hangul}": "ko",
    r"\p{Hiragana}\p{Katakana}\p{Han}ー": "ja",
    r"\p{Han}\p{Bopomofo}": "yue zh",
    r"\p{Greek}": "el",
    r"\p{Hebrew}": "he yi",
    r"\p{Armenian}": "hy",
    r"\p{Georgian}": "ka",
    r"\p{Ethiopic}": "am ti",
    r"\p{Bengali}": "as bn",
    r"\p{Gujarati}": "gu",
    r"\p{Gurmukhi}": "pa",
    r"\p{Tamil}": "ta",
    r"\p{Telugu}": "te",
    r"\p{Kannada}": "kn",
    r"\p{Malayalam}": "ml",
    r"\p{Sinhala}": "si",
    r"\p{Thai}": "th",
    r"\p{Lao}": "lo",
    r"\p{Khmer}": "km",
    r"\p{Myanmar}": "my",
    r"\p{Tibetan}": "bo",
}
SCRIPT_OF_LANGUAGE = {language: script for script, languages in _SCRIPTS.items() for language in languages.split()}
"""Characters of a language's script, as the inside of a regular expression's class, by ISO 639 code.

Languages that are written in several scripts (Serbian) or that are not listed are not checked."""


@dataclass(frozen=True)
class Filter:
    """One reason to drop a pair."""

    reason: str
    """Its name in reports and in the table of dropped pairs."""
    knob: str
    """What to change to keep more: a dotted key of the recipe, or advice."""
    drop: pl.Expr
    """Boolean over the columns source, target, source_key, target_key."""
    value: pl.Expr
    """The measure that decided, over the same columns."""


def filters(config: CleanConfig, languages: LanguagesConfig) -> list[Filter]:
    """All filters, in the order in which they are asked."""
    return [
        _empty(),
        _broken_encoding(),
        _too_few_words(config, languages),
        _too_many_words(config, languages),
        _too_many_characters(config),
        _long_word(config, languages),
        _few_letters(config),
        *_copy(config),
        *_wrong_script(config, languages),
        _length_ratio(config),
    ]


def reason(asked: Sequence[Filter]) -> pl.Expr:
    """Reason of the first filter that drops the pair; null if all keep it."""
    return pl.coalesce(pl.lit(None, dtype=pl.String), *(pl.when(f.drop).then(pl.lit(f.reason)) for f in asked))


def value(asked: Sequence[Filter]) -> pl.Expr:
    """Measure of the filter that the column `reason` names, as text; null if it names none of them."""
    return pl.coalesce(
        pl.lit(None, dtype=pl.String),
        *(pl.when(pl.col("reason") == f.reason).then(f.value.cast(pl.String)) for f in asked),
    )


def _either(measure: Callable[[pl.Expr], pl.Expr]) -> list[pl.Expr]:
    return [measure(pl.col(side)) for side in SIDES]


def _first_side(faults: list[pl.Expr]) -> pl.Expr:
    """Name of the first side that has the fault."""
    return pl.coalesce(pl.when(fault).then(pl.lit(side)) for fault, side in zip(faults, SIDES, strict=True))


def _empty() -> Filter:
    empty = _either(lambda text: text == "")
    return Filter("empty", "the corpus, where a side holds no text", pl.any_horizontal(empty), _first_side(empty))


def _broken_encoding() -> Filter:
    broken = _either(normalize.is_broken)
    return Filter("broken_encoding", "the corpus's encoding", pl.any_horizontal(broken), _first_side(broken))


def _word_counts(languages: LanguagesConfig) -> list[pl.Expr]:
    return [
        pl.col(side).str.count_matches(normalize.word_pattern(language))
        for side, language in zip(SIDES, (languages.source, languages.target), strict=True)
    ]


def _too_few_words(config: CleanConfig, languages: LanguagesConfig) -> Filter:
    fewest = pl.min_horizontal(_word_counts(languages))
    return Filter("too_few_words", "clean.min_words", fewest < config.min_words, fewest)


def _too_many_words(config: CleanConfig, languages: LanguagesConfig) -> Filter:
    most = pl.max_horizontal(_word_counts(languages))
    return Filter("too_many_words", "clean.max_words", most > config.max_words, most)


def _too_many_characters(config: CleanConfig) -> Filter:
    most = pl.max_horizontal(_either(lambda text: text.str.len_chars()))
    return Filter("too_many_characters", "clean.max_characters", most > config.max_characters, most)


def _long_word(config: CleanConfig, languages: LanguagesConfig) -> Filter:
    words = [
        pl.col(side).str.extract(f"({normalize.long_word_pattern(language, config.max_word_characters + 1)})")
        for side, language in zip(SIDES, (languages.source, languages.target), strict=True)
    ]
    first = pl.coalesce(words)
    return Filter("long_word", "clean.max_word_characters", first.is_not_null(), first.str.len_chars())


def _letters(text: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Numbers of letters, and of characters other than spaces, in normalised text.

    What is no letter is rarer than letters, and so faster to count.
    """
    characters = text.str.len_chars() - text.str.count_matches(" ", literal=True)
    return characters - text.str.count_matches(r"[^\p{Alphabetic} ]"), characters


def _few_letters(config: CleanConfig) -> Filter:
    def share(text: pl.Expr) -> pl.Expr:
        letters, characters = _letters(text)
        return letters / characters

    least = pl.min_horizontal(_either(share))
    return Filter("few_letters", "clean.min_letter_share", least < config.min_letter_share, least.round(2))


def _copy(config: CleanConfig) -> list[Filter]:
    if not config.drop_copies:
        return []
    return [Filter("copy", "clean.drop_copies", pl.col("source_key") == pl.col("target_key"), pl.lit("target"))]


def _wrong_script(config: CleanConfig, languages: LanguagesConfig) -> list[Filter]:
    def share(side: str, script: str) -> pl.Expr:
        letters, _ = _letters(pl.col(side))
        foreign = pl.col(side).str.count_matches(rf"[\p{{Alphabetic}}--[{script}]]")
        return pl.when(letters > 0).then(1 - foreign / letters).otherwise(1.0)

    shares = [
        share(side, SCRIPT_OF_LANGUAGE[language])
        for side, language in zip(SIDES, (languages.source, languages.target), strict=True)
        if language in SCRIPT_OF_LANGUAGE
    ]
    if not shares:
        return []
    least = pl.min_horizontal(shares)
    return [Filter("wrong_script", "clean.min_script_share", least < config.min_script_share, least.round(2))]


def _length_ratio(config: CleanConfig) -> Filter:
    source = pl.col("source").str.len_chars() / config.characters_per_character
    target = pl.col("target").str.len_chars()
    ratio = pl.max_horizontal(source / target, target / source)
    return Filter("length_ratio", "clean.max_length_ratio", ratio > config.max_length_ratio, ratio.round(2))
