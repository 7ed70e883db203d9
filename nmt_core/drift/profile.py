"""Profile text and its translations as histograms. A profile holds no text, and profiles of parts add up.

Measures are taken for each line: lines are independent samples, as two-sample tests require, and tokens or characters
of one line are not. Bins are fixed, so that profiles of any two texts can be compared and added.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from nmt_core.corpus.cleaning import language_id
from nmt_core.spelling import Spelling
from nmt_core.tokenizer.tokenizer import UNK_ID, Tokenizer

Line = TypeVar("Line")

_SAMPLED_LINES = 512
"""Lines of a text up to which all are profiled."""
_LEAST_SHARE = 0.25
"""Share of the lines of a long text that is profiled, so that it costs below 2% of the CPU time of translation."""
_LANGUAGE_EVERY = 8
"""One line in this many is identified. Identification takes most of the time, and other languages are easy to see."""
_LEAST_PROBABILITY = 0.5
_FEWEST_LETTERS = 12
_UNIDENTIFIED = "too short"


def _quarter_octaves(octaves: int) -> tuple[float, ...]:
    """Return 1 and the powers of the fourth root of 2, for lengths, each once."""
    return tuple(sorted({float(round(2 ** (step / 4))) for step in range(4 * octaves + 1)}))


_LENGTHS = _quarter_octaves(11)
_SHARES = (1e-9, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.5, 0.7, 0.9, 1.0)

EDGES: Mapping[str, tuple[float, ...]] = {
    "characters": _LENGTHS,
    "tokens": _LENGTHS,
    "characters_per_token": tuple(number / 4 for number in range(2, 41)),
    "characters_per_word": tuple(number / 4 for number in range(4, 61)),
    "token_rank": tuple(number / 4 for number in range(8, 65)),
    "distinct_words": tuple(number / 20 for number in range(1, 21)),
    "upper_case": _SHARES,
    "digits": _SHARES,
    "punctuation": _SHARES,
    "symbols": _SHARES,
    "score": tuple(number / 20 for number in range(-120, 1)),
    "translation_tokens": _LENGTHS,
}
"""Lower edges of the bins of each numeric measure. The first bin is below the first edge.

`characters` and `tokens` are the lengths of a line. `token_rank` is the mean of log2(1 + id) over its tokens: ids of a
vocabulary are in the order of frequency, or nearly, so that it measures how rare the pieces of a line are.
`distinct_words` is the share of its words that are different. `upper_case` is the share of letters in upper case, and
`digits`, `punctuation` and `symbols` are shares of the characters that are no spaces. `score` is the score of a
translation in nats, over its length penalty.
"""
Category = Literal["script", "language", "first", "last", "unknown", "status"]
CATEGORIES: tuple[Category, ...] = ("script", "language", "first", "last", "unknown", "status")
"""Measures that are names. `script` is the script of most letters of a line, `language` the identified language of a
sample of lines, `first` and `last` the kind of the first and last character, and `unknown` tells lines of which the
vocabulary can spell all from the others."""

_SCRIPTS = (
    *("Latin", "Cyrillic", "Greek", "Han", "Hiragana", "Katakana", "Hangul", "Arabic", "Hebrew", "Devanagari"),
    *("Bengali", "Tamil", "Telugu", "Thai", "Georgian", "Armenian", "Ethiopic", "Khmer", "Myanmar"),
)
_KINDS = {
    "upper case": r"\p{Lu}|\p{Lt}",
    "lower case": r"\p{Ll}",
    "other letter": r"\p{L}|\p{M}",
    "digit": r"\p{N}",
    "full stop": r"[.。।]",
    "question mark": r"[?？؟]",
    "exclamation mark": r"[!！]",
    "other punctuation": r"\p{P}",
    "symbol": r"\p{S}",
}


class Profile(BaseModel):
    """Histograms of text and of its translations."""

    model_config = ConfigDict(frozen=True)
    format: Literal[1] = 1
    lines: int = 0
    """Number of lines. Lines without text are not counted."""
    tokens: int = 0
    """Number of source tokens."""
    unknown_tokens: int = 0
    """Number of these that stand for text which the vocabulary cannot spell."""
    histograms: Mapping[str, Mapping[int, int]] = {}
    """Number of lines in each bin of `EDGES`, by measure and by number of the bin. Empty bins are left out."""
    categories: Mapping[str, Mapping[str, int]] = {}
    """Number of lines of each name, by measure (`CATEGORIES`)."""

    def counts(self, measure: str) -> np.ndarray:
        """Return the number of lines in all bins of a numeric measure, in order."""
        counts = np.zeros(len(EDGES[measure]) + 1, np.int64)
        for number, count in self.histograms.get(measure, {}).items():
            counts[number] = count
        return counts

    @property
    def unknown_token_share(self) -> float:
        """Share of tokens that stand for text which the vocabulary cannot spell."""
        return self.unknown_tokens / max(self.tokens, 1)


def merged(profiles: Iterable[Profile]) -> Profile:
    """Return the profile of several texts together, whatever their order."""
    lines = tokens = unknown = 0
    histograms: dict[str, dict[int, int]] = {}
    categories: dict[str, dict[str, int]] = {}
    for profile in profiles:
        lines, tokens = lines + profile.lines, tokens + profile.tokens
        unknown += profile.unknown_tokens
        for measure, bins in profile.histograms.items():
            _add(histograms.setdefault(measure, {}), bins)
        for measure, names in profile.categories.items():
            _add(categories.setdefault(measure, {}), names)
    return Profile(
        lines=lines,
        tokens=tokens,
        unknown_tokens=unknown,
        histograms={measure: dict(sorted(histograms[measure].items())) for measure in sorted(histograms)},
        categories={measure: dict(sorted(categories[measure].items())) for measure in sorted(categories)},
    )


def _add(total: dict[Any, int], counts: Mapping[Any, int]) -> None:
    for key, count in counts.items():
        total[key] = total.get(key, 0) + count


def profile_of(lines: Sequence[str], tokenizer: Tokenizer, spelling: Spelling) -> Profile:
    """Return the profile of source text.

    Args:
        lines: text, a line each, as it was written. Lines without text are left out.
        tokenizer: source tokenizer of the model.
        spelling: spelling of the model's training text, which lines are given first. Its language is the expected one.
    """
    tidied = [line for line in map(spelling.tidy, lines) if line]
    if not tidied:
        return Profile()
    text = pl.Series("text", tidied)
    tokens = tokenizer.encode(tidied)
    lengths = np.array([len(ids) for ids in tokens])
    flat = np.fromiter((token for ids in tokens for token in ids), np.int64, int(lengths.sum()))
    line_of = np.repeat(np.arange(len(tokens)), lengths)
    unknown = np.bincount(line_of, flat == UNK_ID, len(tokens))
    ranks = np.bincount(line_of, np.log2(1 + flat), len(tokens))
    characters = text.str.len_chars().to_numpy()
    spelled = lengths > 0
    values = _shares(text) | {
        "characters": characters,
        "tokens": lengths,
        "characters_per_token": characters[spelled] / lengths[spelled],
        "token_rank": ranks[spelled] / lengths[spelled],
    }
    names = _names(text) | {
        "language": _languages(text, spelling.language),
        "unknown": pl.Series(np.where(unknown > 0, "some", "none")),
    }
    return merged([_profile(len(tidied), values, names, (int(lengths.sum()), int(unknown.sum())))])


def sampled(lines: Sequence[Line], seed: int, all_lines: int) -> Sequence[Line]:
    """Return the lines of a part of a text that are profiled: all of a short text, and a quarter of a long one.

    Args:
        lines: lines of the part.
        seed: number of the part, which determines the draw.
        all_lines: number of lines of the whole text.
    """
    share = max(_SAMPLED_LINES / max(all_lines, 1), _LEAST_SHARE)
    if share >= 1:
        return lines
    drawn = np.random.default_rng(seed).random(len(lines)) < share
    return [line for line, is_drawn in zip(lines, drawn.tolist(), strict=True) if is_drawn]


def of_translations(scores: pl.Series, tokens: pl.Series, statuses: pl.Series) -> Profile:
    """Return the profile of translations. It is added to the profile of their sources, and counts no lines.

    Args:
        scores: score of each translation in nats. Null if it is not known.
        tokens: number of target tokens of each translation.
        statuses: status of each translation.
    """
    known = scores.drop_nulls().to_numpy()
    values = {"score": known, "translation_tokens": tokens.to_numpy()}
    return merged([_profile(0, values, {"status": statuses}, (0, 0))])


def _profile(
    lines: int, values: Mapping[str, np.ndarray], names: Mapping[str, pl.Series], tokens: tuple[int, int]
) -> Profile:
    histograms = {}
    for measure, own in values.items():
        bins, counts = np.unique(np.searchsorted(EDGES[measure], own, side="right"), return_counts=True)
        histograms[measure] = dict(zip(bins.tolist(), counts.tolist(), strict=True))
    categories = {}
    for measure, series in names.items():
        counted = series.alias("name").value_counts(name="count")
        categories[measure] = dict(zip(counted["name"].to_list(), counted["count"].to_list(), strict=True))
    return Profile(
        lines=lines, tokens=tokens[0], unknown_tokens=tokens[1], histograms=histograms, categories=categories
    )


def _shares(text: pl.Series) -> dict[str, np.ndarray]:
    """Return the measures of characters and words, for each line for which they are defined."""
    column = pl.col("text")
    counts = text.to_frame().select(
        visible=column.str.count_matches(r"[^\s]"),
        letters=column.str.count_matches(r"\p{L}"),
        upper=column.str.count_matches(r"\p{Lu}"),
        digits=column.str.count_matches(r"\p{N}"),
        punctuation=column.str.count_matches(r"\p{P}"),
        symbols=column.str.count_matches(r"\p{S}"),
        words=column.str.split(" ").list.len(),
        distinct=column.str.to_lowercase().str.split(" ").list.n_unique(),
    )
    visible, words, letters = (counts[name].to_numpy() for name in ("visible", "words", "letters"))
    shares = {name: counts[name].to_numpy() / np.maximum(visible, 1) for name in ("digits", "punctuation", "symbols")}
    cased = letters > 0
    return shares | {
        "upper_case": counts["upper"].to_numpy()[cased] / letters[cased],
        "characters_per_word": visible / words,
        "distinct_words": counts["distinct"].to_numpy() / words,
    }


def _names(text: pl.Series) -> dict[str, pl.Series]:
    """Return the script of each line, and the kinds of its first and last character."""
    frame = text.to_frame()
    first, last = pl.col("text").str.head(1), pl.col("text").str.tail(1)
    kinds = frame.select(first=_kind(first), last=_kind(last))
    return {"script": _scripts(text), "first": kinds["first"], "last": kinds["last"]}


def _kind(character: pl.Expr) -> pl.Expr:
    kind = pl.lit("other")
    for name, pattern in reversed(_KINDS.items()):
        kind = pl.when(character.str.contains(pattern)).then(pl.lit(name)).otherwise(kind)
    return kind


def _scripts(text: pl.Series) -> pl.Series:
    """Return the script of most letters of each line, or `none` without letters. Most lines are Latin alone."""
    latin = text.to_frame().select(
        all=pl.col("text").str.count_matches(r"\p{L}"), latin=pl.col("text").str.count_matches(r"\p{Latin}")
    )
    scripts = pl.Series("script", ["none"] * len(text)).scatter((latin["latin"] * 2 > latin["all"]).arg_true(), "Latin")
    others = ((latin["latin"] * 2 <= latin["all"]) & (latin["all"] > 0)).arg_true()
    if others.is_empty():
        return scripts
    rest = text.gather(others).to_frame()
    counts = rest.select(pl.col("text").str.count_matches(rf"\p{{{name}}}").alias(name) for name in _SCRIPTS).to_numpy()
    best = counts.argmax(axis=1)
    found = [_SCRIPTS[place] if own[place] else "other" for place, own in zip(best.tolist(), counts, strict=True)]
    return scripts.scatter(others, found)


def _languages(text: pl.Series, expected: str) -> pl.Series:
    """Return the language of a sample of lines. Empty if the expected language cannot be identified."""
    if not language_id.is_known(expected):
        return pl.Series("language", [], dtype=pl.String)
    sample = text.gather_every(_LANGUAGE_EVERY)
    letters = sample.to_frame().select(pl.col("text").str.count_matches(r"\p{L}")).to_series()
    verdicts = language_id.Identifier(expected, "", _LEAST_PROBABILITY).identify(sample)
    languages = verdicts.struct.field("language").to_frame("language")
    short = (letters < _FEWEST_LETTERS).alias("short")
    return languages.select(pl.when(short).then(pl.lit(_UNIDENTIFIED)).otherwise("language")).to_series()


def words_of(measure: str) -> str:
    """Return the name of a measure as users read it."""
    return {"first": "first character", "last": "last character"}.get(measure, measure.replace("_", " "))


def label_of(measure: str, number: int) -> str:
    """Return the range of a bin of `EDGES` as text."""
    edges = EDGES[measure]
    if number == 0:
        return "none" if edges is _SHARES else f"below {edges[0]:g}"
    if number == 1 and edges is _SHARES:
        return f"below {edges[1]:g}"
    if number == len(edges):
        return f"from {edges[-1]:g}"
    return f"{edges[number - 1]:g} to {edges[number]:g}"


def bin_of(measure: str, value: float) -> int:
    """Return the number of the bin of a value."""
    return bisect_right(EDGES[measure], value)
