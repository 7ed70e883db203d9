"""Filter pairs by form: a side that is empty, too short, too long or of the wrong characters, or unequal lengths."""

import polars as pl

from nmt_core.config import SIDES, FilterConfig, LanguagesConfig
from nmt_core.corpus import normalize, scripts
from nmt_core.corpus.cleaning import thresholds
from nmt_core.corpus.cleaning.filters.base import Filter, either, first_side
from nmt_core.corpus.cleaning.filters.scripts import letters_of
from nmt_core.corpus.cleaning.thresholds import CleanRules


def filters(rules: CleanRules) -> list[Filter]:
    """Return the active filters in the order in which they are applied."""
    config = rules.thresholds
    return [
        _empty(),
        _broken_encoding(),
        *_word_counts(config),
        *_character_counts(config),
        _long_word(config),
        _few_letters(config),
    ]


def filters_by_language(rules: CleanRules) -> list[Filter]:
    """Return the filters that depend on the languages. Copies fail them too, so copies are checked earlier."""
    return [*_wrong_script(rules.thresholds, rules.languages), _length_ratio(rules.thresholds, rules.languages)]


def measures(rules: CleanRules) -> list[pl.Expr]:
    """Return the columns that the filters of both functions use.

    For each side: the text with all words parted by spaces, how much heavier it is than its number of characters, and
    the part of that weight that is in the script of the side's language.
    """
    columns = []
    for side in SIDES:
        script = letters_of(getattr(rules.languages, side), rules.languages.script(side)) or ""
        own = scripts.extra_weight(pl.col(side), script) if scripts.is_weighed(script) else pl.lit(0.0)
        columns += [
            scripts.with_spaces(pl.col(side)).alias(f"{side}_spaced"),
            scripts.extra_weight(pl.col(side)).alias(f"{side}_extra"),
            own.alias(f"{side}_own_extra"),
        ]
    return columns


def _empty() -> Filter:
    empty = either(lambda text: text == "")
    return Filter("empty", "the corpus, where a side holds no text", pl.any_horizontal(empty), first_side(empty))


def _broken_encoding() -> Filter:
    broken = either(normalize.is_broken)
    return Filter("broken_encoding", "the corpus's encoding", pl.any_horizontal(broken), first_side(broken))


def _word_counts(config: FilterConfig) -> list[Filter]:
    counts = [normalize.word_count(pl.col(f"{side}_spaced")) for side in SIDES]
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


def _long_word(config: FilterConfig) -> Filter:
    pattern = rf"(\S{{{config.max_word_characters + 1},}})"
    first = pl.coalesce(pl.col(f"{side}_spaced").str.extract(pattern) for side in SIDES)
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
    def share(side: str, other: str, script: str) -> pl.Expr:
        letters, _ = _letters(pl.col(side))
        extra, own_extra = pl.col(f"{side}_extra"), pl.col(f"{side}_own_extra")
        foreign = pl.col(side).str.count_matches(rf"[\p{{Alphabetic}}--[{script}]]") + extra - own_extra
        own = letters + extra - foreign
        return pl.struct(text=side, other=other, own=own, foreign=foreign).map_batches(
            lambda counts: _script_share(counts.struct.unnest(), script, config.min_script_share),
            return_dtype=pl.Float64,
            is_elementwise=True,
        )

    others = dict(zip(SIDES, reversed(SIDES), strict=True))
    scripts_of = {side: letters_of(getattr(languages, side), languages.script(side)) for side in SIDES}
    shares = [share(side, others[side], script) for side, script in scripts_of.items() if script]
    if not shares:
        return []
    least = pl.min_horizontal(shares)
    return [Filter("wrong_script", "clean.min_script_share", least < config.min_script_share, least.round(2))]


def _script_share(sides: pl.DataFrame, script: str, enough: float) -> pl.Series:
    """Return the weighed share of the letters of each side that are in its script. Text without letters has 1.

    If the share is too low, foreign words that are also on the other side do not count: names of options, of programs
    and of people stay as they are in translation.
    """

    def share(own: pl.Series, foreign: pl.Series) -> pl.Series:
        return (own / (own + foreign)).fill_nan(1.0)

    shares = share(sides["own"], sides["foreign"])
    rows = ((shares < enough) & (shares > 0)).arg_true()
    if rows.is_empty():
        return shares
    low = sides[rows]
    words = low["text"].str.extract_all(rf"[\p{{Alphabetic}}--[{script}]]+").to_list()
    unshared = [
        "".join(word for word in of_text if word not in other)
        for of_text, other in zip(words, low["other"].to_list(), strict=True)
    ]
    left = pl.DataFrame({"text": pl.Series(unshared, dtype=pl.String)})
    foreign = left.select(pl.col("text").str.len_chars() + scripts.extra_weight(pl.col("text"))).to_series()
    return shares.scatter(rows, share(low["own"], foreign))


def _length_ratio(config: FilterConfig, languages: LanguagesConfig) -> Filter:
    source, target = (pl.col(side).str.len_chars() for side in SIDES)
    expected = config.expected_length_ratio
    if not expected:  # the usual ratio: by the scripts of the text, and by the languages
        source, target = (count + pl.col(f"{side}_extra") for count, side in zip((source, target), SIDES, strict=True))
        expected = thresholds.usual_length_ratio(languages)
    weighted = source / expected
    ratio = pl.max_horizontal(weighted / target, target / weighted)
    return Filter("length_ratio", "clean.max_length_ratio", ratio > config.max_length_ratio, ratio.round(2))
