"""Filter pairs by word lists: drop a pair with a side that holds a word or phrase of a file, such as profanity.

Case is ignored. Only whole words match ("class" does not hold "ass"). In scripts without spaces between words, a phrase
matches anywhere.

`read` reads the file once, in the process that has the recipe. A worker on another machine cannot use the path, and the
file may be edited while the text is cleaned. Workers get the phrases from an address (`CleanRules.word_lists`).
"""

import functools
from collections.abc import Callable
from pathlib import Path

import polars as pl

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus import normalize, scripts
from nmt_core.corpus.cleaning.filters.base import Filter, languages_by_side
from nmt_core.corpus.cleaning.thresholds import CleanRules
from nmt_core.errors import ConfigError
from nmt_core.spelling import Spelling
from nmt_core.store import storage


def read(clean: CleanConfig, languages: LanguagesConfig) -> dict[str, pl.DataFrame]:
    """Return the phrases of each side that has a list, normalised like the text and in lower case: column phrase.

    Raises:
        ConfigError: a list cannot be read or is empty.
    """
    phrases: dict[str, pl.DataFrame] = {}
    for side, language in languages_by_side(languages).items():
        option = f"{side}_word_list"
        if file := getattr(clean, option):
            phrases[side] = pl.DataFrame({"phrase": _phrases(file, f"clean.{option}", Spelling.of(clean, language))})
    return phrases


def filters(rules: CleanRules) -> list[Filter]:
    """Return one filter for each side that has a list. The list is read when the first sentence is checked."""
    active = []
    for side in rules.sides:
        if getattr(rules.clean, f"{side}_word_list"):
            phrases = functools.partial(_placed, rules.word_lists.get(side, ""))
            phrase = _found(pl.col(side), phrases)
            active.append(Filter(f"{side}_word_list", f"clean.{side}_word_list", phrase.is_not_null(), phrase))
    return active


@functools.lru_cache(maxsize=8)
def _placed(url: str) -> list[str]:
    """Read the phrases. Cached, because a worker judges many shards with the same list."""
    return storage.read(url)["phrase"].to_list()


def _phrases(file: str, option: str, spelling: Spelling) -> tuple[str, ...]:
    try:
        lines = Path(file).read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise ConfigError(f"{option}={file!r}: {error.strerror}: name a file that can be read") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{option}={file!r}: byte {error.start} is not UTF-8: save the file as UTF-8") from None
    phrases = normalize.normalise(pl.Series(lines), *spelling).str.to_lowercase()
    kept = tuple(phrases.filter(phrases != "").unique(maintain_order=True))
    if not kept:
        raise ConfigError(f"{option}={file!r}: the file holds no words: add one a line, or leave {option} empty")
    return kept


def _found(text: pl.Expr, phrases: Callable[[], list[str]]) -> pl.Expr:
    """Return the first phrase that occurs in each sentence, in sentence order, or null if there is none."""

    def find(series: pl.Series) -> pl.Series:
        lower = series.str.to_lowercase()
        rows = lower.str.contains_any(phrases()).arg_true()
        held = lower.gather(rows)
        hits = held.str.extract_many(phrases(), overlapping=True).to_list()
        first = [
            next((phrase for phrase in candidates if _is_whole(phrase, sentence)), None)
            for sentence, candidates in zip(held.to_list(), hits, strict=True)
        ]
        nothing = pl.repeat(None, len(series), dtype=pl.String, eager=True)
        return nothing.scatter(rows, pl.Series(first, dtype=pl.String)).rename(series.name)

    return text.map_batches(find, return_dtype=pl.String)


def _is_whole(phrase: str, sentence: str) -> bool:
    """Return True if a phrase occurs in a sentence without a letter or digit next to it.

    Letters of scripts without spaces do not count: they are words of their own.
    """
    start = sentence.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        before, after = sentence[max(start - 1, 0) : start], sentence[end : end + 1]
        if not (_are_joined(before, phrase[0]) or _are_joined(phrase[-1], after)):
            return True
        start = sentence.find(phrase, start + 1)
    return False


def _are_joined(left: str, right: str) -> bool:
    """Return True if two adjacent characters, either of which may be missing, are in one word."""
    return bool(left and right) and right.isalnum() and left.isalnum() and not scripts.is_unspaced(left + right)
