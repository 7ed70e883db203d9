"""Find faults in translations with the filters of `clean`, which compare the two sides of a pair.

`clean` may drop a good pair, because there are others. A status that is often wrong is of no use, so some filters are
narrowed here: at most 1% of the reference translations of four corpora have a fault (`benchmarks/faults.py`).
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import get_args

import polars as pl

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.config.search import Fault
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning import language_id
from nmt_core.corpus.cleaning.filters import agreement, form, repetition
from nmt_core.corpus.cleaning.filters.base import Filter
from nmt_core.corpus.cleaning.thresholds import CleanRules, rules_for, usual_length_ratio
from nmt_core.search.translation import WHOLE, Translation
from nmt_core.translator import Translator

FAULTS: tuple[Fault, ...] = get_args(Fault)
"""Statuses of translations with a fault. If there are several, the first one is the status."""

_THRESHOLDS = CleanConfig(
    numbers_must_match=True, max_length_ratio=3.0, max_copied_share=0.9, min_copied_words=4, max_repeated_words=3
)
_MOST_UNEVEN = 20
"""Difference of the lengths, in characters, up to which no text is too short or too long, whatever the ratio."""
_FEWEST_LETTERS = 12
"""Fewest letters of a text whose language is identified."""
_FEWEST_WORDS = 2
"""Fewest words of a copied text with a fault. One word is often a name."""
_WORD = re.compile(r"[^\w\s]*[^\W\d_](?:[^\W\d_]|['’-])*[^\w\s]*")
"""Word of letters. Addresses, placeholders and names with digits stay as they are in a translation."""
_NO_WORD = r"\S*[/@<>{}\\_%$\d]\S*"
"""Word that belongs to no language, such as an address."""
_TIDY = ("source", "target")
_CHECKED = WHOLE | {"terms_missing"}
"""Statuses of translations that are checked. The others name a fault already, which is worse than a missing term."""


class Checker:
    """Checker of translations between two languages. Threads may share it.

    Args:
        languages: source and target language.
    """

    def __init__(self, languages: LanguagesConfig) -> None:
        rules = rules_for(_THRESHOLDS, languages, "")
        self._rules = rules
        by_reason = {rule.reason: rule for rule in agreement.filters(rules)}
        uneven = next(rule for rule in form.filters_by_language(rules) if rule.reason == "length_ratio")
        self._ratio = usual_length_ratio(languages)
        self._drops = {
            "uneven": uneven.drop,
            "repeats": _any(repetition.repeated_characters(rules), repetition.repeated_words(rules)),
            "copied": _any(agreement.copy(), agreement.near_copy(rules.thresholds)),
            "placeholders_differ": by_reason["placeholders_differ"].drop,
            "tags_differ": by_reason["tags_differ"].drop,
            "numbers_differ": by_reason["numbers_differ"].drop & pl.col("source").str.contains(r"\p{Nd}"),
        }
        identifier = language_id.Identifier(
            languages.target, languages.source, rules.thresholds.min_language_probability
        )
        self._identifier = identifier if language_id.is_known(languages.target) else None

    def faults(self, sources: Sequence[str], translations: Sequence[str]) -> list[str | None]:
        """Return the fault of each translation, or None."""
        pairs = pl.DataFrame({"source": sources, "target": translations}, schema=dict.fromkeys(_TIDY, pl.String))
        faults: list[str | None] = [None] * pairs.height
        if not faults:
            return faults
        measured = _measured(pairs, self._rules)
        verdicts = measured.select(**self._drops, wrong_language=self._wrong_language())
        lengths = measured.select(pl.col(side).str.len_chars() + pl.col(f"{side}_extra") for side in _TIDY)
        suspects = verdicts.select(pl.any_horizontal(pl.all()).fill_null(value=False)).to_series().arg_true()
        for place in suspects.to_list():
            drops = {name for name, drop in verdicts.row(place, named=True).items() if drop}
            source, target = lengths.row(place)
            faults[place] = self._fault(drops, sources[place], source / self._ratio, target)
        return faults

    def _wrong_language(self) -> pl.Expr:
        identifier = self._identifier
        if identifier is None:
            return pl.lit(value=False)

        def is_wrong(sides: pl.Series) -> pl.Series:
            pairs = sides.struct.unnest()
            words = pairs["target"].str.replace_all(_NO_WORD, " ")
            is_long = words.str.len_chars() - words.str.count_matches(r"[^\p{Alphabetic}]") >= _FEWEST_LETTERS
            verdicts = identifier.identify(words.filter(is_long), pairs["source"].filter(is_long))
            is_wrong = ~verdicts.struct.field("is_expected")
            return pl.Series(sides.name, [False] * len(sides)).scatter(is_long.arg_true(), is_wrong)

        return pl.struct(_TIDY).map_batches(is_wrong, return_dtype=pl.Boolean)

    def _fault(self, drops: set[str], source: str, expected: float, length: float) -> str | None:
        """Return the first fault of a pair that filters would drop. The lengths are weighed by the scripts."""
        reasons = set(drops)
        if ("uneven" in drops and abs(expected - length) > _MOST_UNEVEN) or not length:
            reasons.add("too_long" if length > expected else "too_short")
        if "copied" in drops and sum(map(bool, map(_WORD.fullmatch, source.split()))) < _FEWEST_WORDS:
            reasons.discard("copied")
        if "repeats" in drops and self._repeats(source):
            reasons.discard("repeats")
        return next((fault for fault in FAULTS if fault in reasons), None)

    def _repeats(self, source: str) -> bool:
        """Return True if the source itself repeats words, so that its translation may."""
        pair = pl.DataFrame({"source": [source], "target": [source]})
        return bool(_measured(pair, self._rules).select(self._drops["repeats"]).item())


@cache
def checker_for(languages: LanguagesConfig) -> Checker:
    """Return the checker for two languages, made once in each process."""
    return Checker(languages)


def checked(
    lines: Sequence[str], translations: list[Translation], prefixes: Sequence[str], translator: Translator
) -> tuple[list[Translation], list[str]]:
    """Return the translations, and the status of each: its fault, or else the status of its search.

    Translations with a fault are replaced by the best of `search.retry` others that has none.
    """
    statuses: list[str] = [one.status for one in translations]
    places = [place for place, status in enumerate(statuses) if status in _CHECKED]
    if translator.languages is None or not places:
        return translations, statuses
    checker = checker_for(translator.languages)
    faults = checker.faults([lines[place] for place in places], [translations[place].text for place in places])
    faulty = {place: fault for place, fault in zip(places, faults, strict=True) if fault}
    for place, fault in faulty.items():
        statuses[place] = fault
    for place, better in _retried(lines, prefixes, list(faulty), translator, checker):
        translations[place], statuses[place] = better, better.status
    return translations, statuses


def _retried(
    lines: Sequence[str], prefixes: Sequence[str], places: Sequence[int], translator: Translator, checker: Checker
) -> Iterator[tuple[int, Translation]]:
    """Yield a translation without a fault for each of these lines that has one."""
    most, search = translator.search.retry, translator.search
    if most < 2 or not places:
        return
    beam_size = max(search.beam_size, most) if search.method == "beam" else search.beam_size
    again = translator.with_search(n_best=max(most, search.n_best), beam_size=beam_size)
    retried = again.translate([lines[place] for place in places], [prefixes[place] for place in places])
    choices = [one.choices[:most] for one in retried]
    pairs = [(lines[place], other.text) for place, own in zip(places, choices, strict=True) for other in own]
    faults = iter(checker.faults([source for source, _ in pairs], [target for _, target in pairs]))
    for place, one, own in zip(places, retried, choices, strict=True):
        verdicts = [next(faults) for _ in own]
        if one.status in _CHECKED and None in verdicts:
            yield place, one.with_first(verdicts.index(None), search.n_best)


def _any(*rules: Filter | None) -> pl.Expr:
    return pl.any_horizontal(rule.drop for rule in rules if rule)


def _measured(pairs: pl.DataFrame, rules: CleanRules) -> pl.DataFrame:
    """Add the columns that the filters read. Digits of all scripts count as 0 to 9."""
    return pairs.with_columns(normalize.with_western_digits(pl.col(_TIDY))).with_columns(
        *form.measures(rules),
        **{f"{side}_key": normalize.key(pl.col(side)) for side in _TIDY},
        **{f"{side}_words": normalize.words(pl.col(side)) for side in _TIDY},
    )
