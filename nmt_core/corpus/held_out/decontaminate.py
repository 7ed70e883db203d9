"""Keep the sentences of dev and test sets out of the training text, so that scores do not measure memory.

A training pair is a leak if one of its sides equals a held-out sentence of that side (except for case, punctuation,
spaces and what `folding.py` folds). It is also a leak if a side shares a run of `ngram_words` words with a held-out
sentence (`short_ngram_words` with a shorter one). Even shorter sentences count only as a whole, because their runs of
words are common.

With many pairs of languages, each side is compared with all held-out sentences in its language, whatever their pair and
their side.

A pair that shares text with several sets counts for the first of them. The counts of the sets therefore add up to the
number of dropped pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nmt_core.config import SIDES, CleanConfig, LanguagesConfig, Side
from nmt_core.corpus import normalize, scripts
from nmt_core.corpus.held_out import folding
from nmt_core.spelling import Spelling

REASON = "held_out"
REMEDY = "clean.decontaminate"

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, and far from any pattern in the hashes of words

Hashes = NDArray[np.uint64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class _Words:
    """Words of many sentences, one sentence after the other."""

    hashes: Hashes
    row: Rows
    """Index of the sentence of each word, in ascending order."""

    @staticmethod
    def of(text: pl.Series, least: int) -> "_Words":
        """Return the words of sentences with at least `least` words. Some shorter sentences may be included."""
        spaced = scripts.with_spaces(pl.col("text"))
        long_enough = normalize.word_count(spaced) >= least  # punctuation marks count as words here
        long = text.to_frame("text").with_row_index("row").filter(long_enough)
        lists = long.select(normalize.words(pl.col("text"))).to_series()
        words = lists.explode(empty_as_null=False).to_frame("word").select(normalize.hashed(pl.col("word")))
        row = np.repeat(long["row"].cast(pl.Int64).to_numpy(), lists.list.len().to_numpy())
        return _Words(words.to_series().to_numpy(), row)

    def ngrams(self, length: int) -> tuple[Hashes, Rows]:
        """Return the hash of each run of `length` words within one sentence, and the index of its sentence."""
        count = len(self.hashes) - length + 1
        if count <= 0:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        hashes = np.zeros(count, np.uint64)
        for offset in range(length):
            hashes = hashes * _MULTIPLIER + self.hashes[offset : offset + count]
        whole = self.row[:count] == self.row[length - 1 :]
        return hashes[whole], self.row[:count][whole]

    def shorter_than(self, length: int) -> "_Words":
        """Return only the sentences of fewer than `length` words."""
        short = np.bincount(self.row)[self.row] < length if len(self.row) else np.empty(0, bool)
        return _Words(self.hashes[short], self.row[short])


class HeldOut:
    """Lookup of the sentences of all dev and test sets."""

    def __init__(
        self,
        sets: Mapping[str, pl.DataFrame],
        config: CleanConfig,
        languages: LanguagesConfig,
        languages_of: Mapping[str, LanguagesConfig] | None = None,
    ) -> None:
        """Prepare the sets.

        Args:
            sets: pairs (columns source, target) of each held-out set, by its name in the report.
            config: rules about the runs of words.
            languages: languages of the training pairs.
            languages_of: languages of each held-out set. None means that all have the languages of the training pairs,
                and that sides are compared with their own side.
        """
        self.names = list(sets)
        of_set = languages_of or dict.fromkeys(sets, languages)
        self._compared: dict[tuple[str, Side], list[Side]] = {
            (name, side): [
                other
                for other in SIDES
                if (getattr(of_set[name], other) == getattr(languages, side) if languages_of else other == side)
            ]
            for name in sets
            for side in SIDES
        }
        self._long, self._short = config.ngram_words, config.short_ngram_words
        self._languages: dict[Side, str] = {"source": languages.source, "target": languages.target}
        texts = {}
        for name, side in {(name, other) for (name, _), others in self._compared.items() for other in others}:
            language = getattr(of_set[name], side)
            text = normalize.normalise(sets[name][side], *Spelling.of(config, language))
            texts[name, side] = folding.folded(text, language)
        self._keys = {place: folding.keys(text.filter(text != ""), "") for place, text in texts.items()}
        self._ngrams = {place: self._runs(text, place[1]) for place, text in texts.items()}

    def found(self) -> pl.Expr:
        """Return `find` as an expression over the columns that it needs. Rows that have a `reason` give null."""
        return pl.struct("source", "target", "source_key", "target_key", "reason").map_batches(
            lambda pairs: self._find_among_kept(pairs.struct.unnest()), return_dtype=pl.String, is_elementwise=True
        )

    def _find_among_kept(self, pairs: pl.DataFrame) -> pl.Series:
        rows = pairs["reason"].is_null().arg_true()
        held_out = pl.repeat(None, pairs.height, dtype=pl.String, eager=True).alias("held_out")
        return held_out.scatter(rows, self.find(pairs[rows])) if rows.len() else held_out

    def find(self, pairs: pl.DataFrame) -> pl.Series:
        """Return the name of the first held-out set that each pair shares text with, or null (String).

        `pairs` has the columns source and target (normalised), source_key and target_key (`normalize.key`).
        """
        if not self.names:
            return pl.repeat(None, pairs.height, dtype=pl.String, eager=True).alias("held_out")
        set_index = np.full(pairs.height, len(self.names))  # this index means none
        for side, language in self._languages.items():
            keys = folding.keys(pairs[side], language, pairs[f"{side}_key"])
            words = _Words.of(folding.folded(pairs[side], language), self._short)
            runs = {length: words.ngrams(length) for length in {self._long, self._short}}
            for position, name in enumerate(self.names):
                hit = np.zeros(pairs.height, bool)
                for place in ((name, other) for other in self._compared[name, side]):
                    hit |= keys.is_in(self._keys[place].implode()).to_numpy()
                    for length, held_out in self._ngrams[place].items():
                        hashes, rows = runs[length]
                        hit[rows[pl.Series(hashes).is_in(pl.Series(held_out).implode()).to_numpy()]] = True
                set_index[hit] = np.minimum(set_index[hit], position)
        return pl.Series([*self.names, None], dtype=pl.String).gather(set_index).alias("held_out")

    def _runs(self, text: pl.Series, side: str) -> dict[int, Hashes]:
        """Return the hashes of the runs of words that reveal a held-out sentence, by their length in words."""
        words = _Words.of(text, self._short)
        runs = {self._long: words.ngrams(self._long)[0]}
        if self._short < self._long:
            runs[self._short] = words.shorter_than(self._long).ngrams(self._short)[0]
        return {length: np.unique(hashes) for length, hashes in runs.items()}
