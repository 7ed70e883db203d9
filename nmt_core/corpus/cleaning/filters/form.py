"""Filter pairs by form: a side that is empty, too short, too long or of the wrong characters, or unequal lengths."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from nmt_core.config import OTHER_SIDE, SIDES, FilterConfig, LanguagesConfig, Side
from nmt_core.corpus import normalize, scripts
from nmt_core.corpus.cleaning import thresholds
from nmt_core.corpus.cleaning.filters.base import Filter, Scale, either, filter_by, first_side
from nmt_core.corpus.cleaning.filters.language_scripts import letters_of
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
    ratio = [_length_ratio(rules.thresholds, rules.languages)] if len(rules.sides) == len(SIDES) else []
    return [*_wrong_script(rules), *ratio]


def measures(rules: CleanRules) -> list[pl.Expr]:
    """Return the columns that the filters of both functions use.

    For each side that is checked: the text with all words parted by spaces, how much heavier it is than its number of
    characters, and the part of that weight that is in the script of the side's language.
    """
    columns = []
    for side, language in rules.codes.items():
        script = letters_of(language, rules.languages.script(side)) or ""
        own = scripts.extra_weight(pl.col(side), script) if scripts.is_weighed(script) else pl.lit(0.0)
        columns += [
            scripts.with_spaces(pl.col(side)).alias(f"{side}_spaced"),
            scripts.extra_weight(pl.col(side)).alias(f"{side}_extra"),
            own.alias(f"{side}_own_extra"),
        ]
    return columns


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
    counts = {side: normalize.word_count(pl.col(f"{side}_spaced")) for side in rules.sides}
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
    def too_long(side: Side) -> pl.Expr:
        most = rules.thresholds.limit("max_word_characters", side)
        return pl.col(f"{side}_spaced").str.extract(rf"(\S{{{most + 1},}})")

    def longest(side: Side) -> pl.Expr:
        return pl.col(f"{side}_spaced").str.split(" ").list.eval(pl.element().str.len_chars()).list.max()

    first = pl.coalesce(too_long(side) for side in rules.sides)
    scale = _scale(rules, "max_word_characters", {side: longest(side) for side in rules.sides})
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
    def share(side: Side, script: str, enough: float) -> pl.Expr:
        letters, _ = _letters(pl.col(side))
        extra, own_extra = pl.col(f"{side}_extra"), pl.col(f"{side}_own_extra")
        foreign = pl.col(side).str.count_matches(rf"[\p{{Alphabetic}}--[{script}]]") + extra - own_extra
        own = letters + extra - foreign
        return pl.struct(text=side, other=OTHER_SIDE[side], own=own, foreign=foreign).map_batches(
            lambda counts: _script_share(counts.struct.unnest(), script, enough),
            return_dtype=pl.Float64,
            is_elementwise=True,
        )

    scripts_of = {side: letters_of(code, rules.languages.script(side)) for side, code in rules.codes.items()}
    written = {side: script for side, script in scripts_of.items() if script}
    if not written:
        return []
    option = "min_script_share"
    decisive = {side: share(side, script, rules.thresholds.limit(option, side)) for side, script in written.items()}
    exact = {side: share(side, script, enough=1.0) for side, script in written.items()}  # whatever the threshold
    rule = filter_by("wrong_script", _scale(rules, option, decisive))
    return [replace(_rounded(rule), scale=_scale(rules, option, exact))]


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
    scale = Scale("max_length_ratio", {"pair": ratio}, {"pair": config.max_length_ratio}, is_minimum=False)
    return _rounded(filter_by("length_ratio", scale))


def _rounded(rule: Filter) -> Filter:
    return replace(rule, value=rule.value.round(2))
