"""Filter pairs by form: a side that is empty, too short, too long or of the wrong characters, or unequal lengths."""

import polars as pl

from nmt_core.config import SIDES, FilterConfig, LanguagesConfig
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning.filters.base import Filter, either, first_side, languages_by_side
from nmt_core.corpus.cleaning.filters.scripts import letters_of
from nmt_core.corpus.cleaning.thresholds import CleanRules


def filters(rules: CleanRules) -> list[Filter]:
    """Return the active filters in the order in which they are applied."""
    config, languages = rules.thresholds, rules.languages
    return [
        _empty(),
        _broken_encoding(),
        *_word_counts(config, languages),
        *_character_counts(config),
        _long_word(config, languages),
        _few_letters(config),
    ]


def filters_by_language(rules: CleanRules) -> list[Filter]:
    """Return the filters that depend on the languages. Copies fail them too, so copies are checked earlier."""
    return [*_wrong_script(rules.thresholds, rules.languages), _length_ratio(rules.thresholds)]


def _empty() -> Filter:
    empty = either(lambda text: text == "")
    return Filter("empty", "the corpus, where a side holds no text", pl.any_horizontal(empty), first_side(empty))


def _broken_encoding() -> Filter:
    broken = either(normalize.is_broken)
    return Filter("broken_encoding", "the corpus's encoding", pl.any_horizontal(broken), first_side(broken))


def _word_counts(config: FilterConfig, languages: LanguagesConfig) -> list[Filter]:
    counts = [normalize.word_count(pl.col(side), language) for side, language in languages_by_side(languages).items()]
    fewest, most = pl.min_horizontal(counts), pl.max_horizontal(counts)
    return [
        Filter("too_few_words", "clean.min_words", fewest < config.min_words, fewest),
        Filter("too_many_words", "clean.max_words", most > config.max_words, most),
    ]


def _character_counts(config: FilterConfig) -> list[Filter]:
    counts = either(lambda text: text.str.len_chars())
    fewest, most = pl.min_horizontal(counts), pl.max_horizontal(counts)
    return [
        Filter("too_few_characters", "clean.min_characters", fewest < config.min_characters, fewest),
        Filter("too_many_characters", "clean.max_characters", most > config.max_characters, most),
    ]


def _long_word(config: FilterConfig, languages: LanguagesConfig) -> Filter:
    words = [
        pl.col(side).str.extract(f"({normalize.long_word_pattern(language, config.max_word_characters + 1)})")
        for side, language in languages_by_side(languages).items()
    ]
    first = pl.coalesce(words)
    return Filter("long_word", "clean.max_word_characters", first.is_not_null(), first.str.len_chars())


def _letters(text: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the numbers of letters, and of characters other than spaces, in normalised text.

    Characters that are not letters are rarer than letters, and so faster to count.
    """
    characters = text.str.len_chars() - text.str.count_matches(" ", literal=True)
    return characters - text.str.count_matches(r"[^\p{Alphabetic} ]"), characters


def _few_letters(config: FilterConfig) -> Filter:
    def share(text: pl.Expr) -> pl.Expr:
        letters, characters = _letters(text)
        return letters / characters

    least = pl.min_horizontal(either(share))
    return Filter("few_letters", "clean.min_letter_share", least < config.min_letter_share, least.round(2))


def _wrong_script(config: FilterConfig, languages: LanguagesConfig) -> list[Filter]:
    def share(side: str, script: str) -> pl.Expr:
        letters, _ = _letters(pl.col(side))
        foreign = pl.col(side).str.count_matches(rf"[\p{{Alphabetic}}--[{script}]]")
        return pl.when(letters > 0).then(1 - foreign / letters).otherwise(1.0)

    scripts = {side: letters_of(getattr(languages, side), languages.script(side)) for side in SIDES}
    shares = [share(side, script) for side, script in scripts.items() if script]
    if not shares:
        return []
    least = pl.min_horizontal(shares)
    return [Filter("wrong_script", "clean.min_script_share", least < config.min_script_share, least.round(2))]


def _length_ratio(config: FilterConfig) -> Filter:
    source, target = (pl.col(side).str.len_chars() for side in SIDES)
    weighted = source / config.expected_length_ratio
    ratio = pl.max_horizontal(weighted / target, target / weighted)
    return Filter("length_ratio", "clean.max_length_ratio", ratio > config.max_length_ratio, ratio.round(2))
