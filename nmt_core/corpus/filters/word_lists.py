"""Filters by word lists: a side that holds one of the words or phrases of a file, such as profanity, is dropped.

Case is ignored. Only whole words count ("class" holds no "ass"), but where a language writes no spaces between words a
phrase counts wherever it stands.
"""

from pathlib import Path

import polars as pl

from nmt_core.corpus import normalize
from nmt_core.corpus.filters.base import Filter, languages_by_side
from nmt_core.corpus.profiles import CleanRules
from nmt_core.errors import ConfigError
from nmt_core.spelling import Spelling


def filters(rules: CleanRules) -> list[Filter]:
    """One for each side that has a list.

    Raises:
        ConfigError: a list cannot be read, or is empty.
    """
    asked = []
    for side, language in languages_by_side(rules.languages).items():
        file = getattr(rules.clean, f"{side}_word_list")
        if file:
            knob = f"clean.{side}_word_list"
            phrases = _read(file, knob, Spelling.of(rules.clean, language))
            found = _found(pl.col(side), phrases, whole=normalize.has_spaces(language))
            asked.append(Filter(f"{side}_word_list", knob, found.is_not_null(), found))
    return asked


def _read(file: str, knob: str, spelling: Spelling) -> tuple[str, ...]:
    """The phrases, spelt as the text is and without case."""
    try:
        lines = Path(file).read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise ConfigError(f"{knob}={file!r}: {error.strerror}: name a file that can be read") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{knob}={file!r}: byte {error.start} is not UTF-8: save the file as UTF-8") from None
    phrases = normalize.normalise(pl.Series(lines), *spelling).str.to_lowercase()
    kept = tuple(phrases.filter(phrases != "").unique(maintain_order=True))
    if not kept:
        raise ConfigError(f"{knob}={file!r}: the file holds no words: add one a line, or leave {knob} empty")
    return kept


def _found(text: pl.Expr, phrases: tuple[str, ...], *, whole: bool) -> pl.Expr:
    """The first phrase that each sentence holds, in the order in which they stand there; null if none."""

    def find(series: pl.Series) -> pl.Series:
        lower = series.str.to_lowercase()
        rows = lower.str.contains_any(list(phrases)).arg_true()
        held = lower.gather(rows)
        hits = held.str.extract_many(list(phrases), overlapping=True).to_list()
        first = [
            next((phrase for phrase in found if not whole or _is_whole(phrase, sentence)), None)
            for sentence, found in zip(held.to_list(), hits, strict=True)
        ]
        nothing = pl.repeat(None, len(series), dtype=pl.String, eager=True)
        return nothing.scatter(rows, pl.Series(first, dtype=pl.String)).rename(series.name)

    return text.map_batches(find, return_dtype=pl.String)


def _is_whole(phrase: str, sentence: str) -> bool:
    """Whether a phrase stands somewhere in a sentence without a letter or digit at either end."""
    start = sentence.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        before, after = sentence[max(start - 1, 0) : start], sentence[end : end + 1]
        if not (before.isalnum() or after.isalnum()):
            return True
        start = sentence.find(phrase, start + 1)
    return False
