"""Filter pairs by repetition: "-----", "la la la la la", "click here click here click here".

Regular expressions of polars have no backreferences. The characters or words of all sentences are therefore
concatenated and compared with themselves, shifted by the length of the repeated part.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nmt_core.config import Side
from nmt_core.corpus import normalize, scripts
from nmt_core.corpus.cleaning.filters.base import Filter, Scale
from nmt_core.corpus.cleaning.thresholds import CleanRules


@dataclass(frozen=True)
class _Lists:
    """Many lists of values, concatenated."""

    values: NDArray[Any]
    ends: NDArray[np.int64]
    """Index at which each list ends."""
    words: pl.Series | None = None
    """The values as text, if they are words."""

    def repeating(self, length: int, times: int) -> NDArray[np.intp]:
        """Return the lists in which a run of `length` values occurs more than `times` times in a row."""
        same = np.flatnonzero(self.values[length:] == self.values[:-length])
        if length == 1 and self.words is not None:
            # A single letter of a script without spaces may legitimately occur four times in a row.
            same = same[~scripts.is_unit(self.words.gather(same)).to_numpy()]
        run = length * times  # consecutive values that equal the value `length` places later
        if len(same) < run:
            return np.empty(0, np.intp)
        starts = same[: len(same) - run + 1]
        starts = starts[same[run - 1 :] - starts == run - 1]
        first = np.searchsorted(self.ends, starts, "right")
        last = np.searchsorted(self.ends, starts + run + length - 1, "right")
        within: NDArray[np.intp] = first[first == last]
        return within


def repeated_characters(rules: CleanRules) -> Filter | None:
    """Return the filter of repeated characters, over the columns source and target. None means that it is off."""
    limits = _limits(rules, "max_repeated_characters")
    drop = []
    for side, times in limits.items():
        long = pl.when(pl.col(side).str.len_chars() > times).then(pl.col(side)).otherwise(pl.lit(""))
        drop.append(_repeats(long, _characters, [1], times))
    return _filter("repeated_characters", drop, limits, {side: _most_in_a_row(pl.col(side), [1]) for side in limits})


def repeated_words(rules: CleanRules) -> Filter | None:
    """Return the filter of repeated words, over the columns source_words and target_words. None means that it is off.

    The columns are lists of words in lower case, without punctuation.
    """
    limits = _limits(rules, "max_repeated_words")
    drop, value = [], {}
    lengths = range(1, rules.thresholds.longest_repeated_run + 1)
    for side, times in limits.items():
        drop.append(_repeats(pl.col(f"{side}_words"), _hashes_of_words, lengths, times))
        value[side] = _most_in_a_row(pl.col(f"{side}_words"), lengths, scripts.is_unspaced)
    return _filter("repeated_words", drop, limits, value)


def _limits(rules: CleanRules, option: str) -> dict[Side, int]:
    """Return the threshold of each side that has one. 0 means none."""
    limits = {side: int(rules.thresholds.limit(option, side)) for side in rules.sides}
    return {side: limit for side, limit in limits.items() if limit}


def _filter(
    reason: str, drop: Sequence[pl.Expr], limits: Mapping[Side, int], value: Mapping[Side, pl.Expr]
) -> Filter | None:
    if not limits:
        return None
    option = f"max_{reason}"
    named = {str(side): measure for side, measure in value.items()}
    scale = Scale(option, named, {str(side): float(limit) for side, limit in limits.items()}, is_minimum=False)
    return Filter(reason, f"clean.{option}", pl.any_horizontal(drop), pl.max_horizontal(*value.values()), scale)


def _characters(text: pl.Series) -> _Lists:
    values = np.frombuffer(text.str.join().item().encode("utf-32-le"), "<u4")
    return _Lists(values, text.str.len_chars().cast(pl.Int64).cum_sum().to_numpy())


def _hashes_of_words(words: pl.Series) -> _Lists:
    flat = words.explode(empty_as_null=False).alias("word")
    hashes = flat.to_frame().select(normalize.hashed(pl.col("word"))).to_series()
    return _Lists(hashes.to_numpy(), words.list.len().cast(pl.Int64).cum_sum().to_numpy(), flat)


def _repeats(column: pl.Expr, lists_of: Callable[[pl.Series], _Lists], lengths: Sequence[int], times: int) -> pl.Expr:
    """Return True where a run of one of these lengths occurs more than `times` times in a row."""

    def find(series: pl.Series) -> pl.Series:
        lists = lists_of(series)
        repeats = np.zeros(len(series), bool)
        for length in lengths:
            repeats[lists.repeating(length, times)] = True
        return pl.Series(series.name, repeats)

    return column.map_batches(find, return_dtype=pl.Boolean)


def _most_in_a_row(
    column: pl.Expr, lengths: Sequence[int], is_ignored: Callable[[str], bool] = lambda value: False
) -> pl.Expr:
    """Return how many times in a row the most repeated run occurs. This is slow, and meant for dropped pairs.

    Runs of one ignored value do not count.
    """

    def count(values: Sequence[str], length: int) -> int:
        most = same = 0
        for place in range(len(values) - length):
            is_same = values[place] == values[place + length] and not (length == 1 and is_ignored(values[place]))
            same = same + 1 if is_same else 0
            most = max(most, same)
        return 1 + most // length

    def count_all(series: pl.Series) -> pl.Series:
        counts = [max(count(values, length) for length in lengths) for values in series.to_list()]
        return pl.Series(series.name, counts, dtype=pl.Int64)

    return column.map_batches(count_all, return_dtype=pl.Int64)
