"""Filter pairs by agreement: items of one side must occur on the other, but a side must not copy the other."""

from collections.abc import Callable

import polars as pl

from nmt_core.config import SIDES, FilterConfig
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning.filters.base import Filter, Scale, either
from nmt_core.corpus.cleaning.thresholds import CleanRules
from nmt_core.text.inline import ADDRESS, PLACEHOLDER, TAG

_POSITION_IN_PRINTF = r"^%[0-9]+\$"

_NAME_OF_TAG = r"^</?[\w:-]+"

_BEHIND_ADDRESS = r".,;:!?'’”»)]}"

_END = r"[.!?…。！？।۔؟][\s\"'’”»«“)\]}」』）]*$"
_OPENING, _CLOSING = "([{（［「『【", ")]}）］」』】"

_SHOWN_CHARACTERS = 60


def filters(rules: CleanRules) -> list[Filter]:
    """Return the active filters in the order in which they are applied."""
    config = rules.thresholds
    if len(rules.sides) < len(SIDES):
        return []
    switched: dict[Callable[[], Filter], bool] = {
        _placeholders: config.placeholders_must_match,
        _tags: config.tags_must_match,
        _numbers: config.numbers_must_match,
        _addresses: config.addresses_must_match,
        _end_marks: config.end_marks_must_match,
        _brackets: config.brackets_must_match,
    }
    return [make() for make, is_on in switched.items() if is_on]


def copy() -> Filter:
    """Return the filter of copies, over the columns source_key, target_key and source_spaced.

    One word is kept: menus and tables are full of names and of words that both languages have, such as Archive in
    English and French.
    """
    is_copied = (pl.col("source_key") == pl.col("target_key")) & (normalize.word_count(pl.col("source_spaced")) > 1)
    return Filter("copy", "clean.drop_copies", is_copied, pl.lit("target"))


def near_copy(config: FilterConfig) -> Filter:
    """Return the filter of near copies, over the columns source_words and target_words.

    The columns are lists of words in lower case, without punctuation. Short sides are exempt: "Debian GNU/Linux 12"
    translates to itself.
    """

    def share(words: pl.Expr, others: pl.Expr) -> pl.Expr:
        shared = words.list.set_intersection(others).list.len() / words.list.n_unique()
        return pl.when(words.list.len() >= config.min_copied_words).then(shared)

    source, target = (pl.col(f"{side}_words") for side in SIDES)
    most = pl.max_horizontal(share(source, target), share(target, source))
    scale = Scale("max_copied_share", {"pair": most}, {"pair": config.max_copied_share}, is_minimum=False)
    return Filter("near_copy", "clean.max_copied_share", most > config.max_copied_share, most.round(2), scale)


def _same_items(reason: str, option: str, sign: str, items: Callable[[pl.Expr], pl.Expr]) -> Filter:
    """Return a filter that requires the same items on both sides, each equally often, in any order.

    Items are extracted only where a side matches `sign`, a regular expression that is fast and rarely matches.
    """
    may_differ = pl.any_horizontal(either(lambda text: text.str.contains(sign)))
    source, target = (items(pl.when(may_differ).then(pl.col(side))).list.sort() for side in SIDES)
    unlike = source.list.set_symmetric_difference(target)
    shown = pl.when(unlike.list.len() > 0).then(unlike).otherwise(pl.concat_list(source, target)).list.sort()
    return Filter(reason, option, source != target, shown.list.join(" ").str.head(_SHOWN_CHARACTERS))


def _placeholders() -> Filter:
    def items(text: pl.Expr) -> pl.Expr:
        return text.str.extract_all(PLACEHOLDER).list.eval(pl.element().str.replace(_POSITION_IN_PRINTF, "%"))

    return _same_items("placeholders_differ", "clean.placeholders_must_match", "[%{]", items)


def _tags() -> Filter:
    def items(text: pl.Expr) -> pl.Expr:
        return text.str.extract_all(TAG).list.eval(pl.element().str.extract(_NAME_OF_TAG, 0).str.to_lowercase())

    return _same_items("tags_differ", "clean.tags_must_match", "<", items)


def _numbers() -> Filter:
    """Return a filter that compares only digits, by their values.

    1,000.5 is written 1.000,5 elsewhere, and the parts of a date change places.
    """

    def items(text: pl.Expr) -> pl.Expr:
        return normalize.with_western_digits(text).str.extract_all("[0-9]")

    return _same_items("numbers_differ", "clean.numbers_must_match", r"\p{Nd}", items)


def _addresses() -> Filter:
    def items(text: pl.Expr) -> pl.Expr:
        addresses = text.str.extract_all(ADDRESS)
        return addresses.list.eval(pl.element().str.to_lowercase().str.strip_chars_end(_BEHIND_ADDRESS))

    return _same_items("addresses_differ", "clean.addresses_must_match", r"://|www\.|@", items)


def _end_marks() -> Filter:
    source, target = either(lambda text: text.str.contains(_END))
    value = pl.when(source).then(pl.lit("source only")).otherwise(pl.lit("target only"))
    return Filter("end_marks_differ", "clean.end_marks_must_match", source != target, value)


def _brackets() -> Filter:
    """Return a filter of unpaired brackets. A list's "a)" lacks a bracket too, but on both sides."""

    def is_paired(text: pl.Expr) -> pl.Expr:
        return pl.all_horizontal(
            text.str.count_matches(opening, literal=True) == text.str.count_matches(closing, literal=True)
            for opening, closing in zip(_OPENING, _CLOSING, strict=True)
        )

    source, target = either(is_paired)
    value = pl.when(source).then(pl.lit("target")).otherwise(pl.lit("source"))
    return Filter("brackets_differ", "clean.brackets_must_match", source != target, value)
