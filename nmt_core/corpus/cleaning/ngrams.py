"""Model text as n-grams of words, and compute the cross-entropy of many sentences at once.

The smoothing is interpolated Witten-Bell (Witten and Bell 1991; Chen and Goodman 1999, section 2.6). A history h that
occurs C(h) times in all, before T(h) different words, gives a word w the probability

    P(w | h) = (C(h w) + T(h) P(w | h')) / (C(h) + T(h))

where h' is h without its first word. Below unigrams, all words of the vocabulary are equally probable. The method needs
no counts of counts, so it also works for a few hundred sentences.

Sentences are flat arrays of word numbers. An n-gram has a 64-bit key, computed word by word modulo 2^64. Two n-grams
that share a key by chance share their counts. Among ten million n-grams the probability of that is 3e-6.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

UNKNOWN, BEGIN, END = 0, 1, 2
"""Numbers of the words outside a vocabulary: any unknown word, and the marks before and after a sentence."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit of a key is lost
_COLUMNS = {"order": pl.UInt8, "key": pl.UInt64, "share": pl.Float64, "left": pl.Float64}


@dataclass(frozen=True)
class Sentences:
    """Sentences as word numbers, each with `order - 1` marks before it and one after it."""

    ids: np.ndarray
    lengths: np.ndarray
    """Number of predicted tokens of each sentence: its words and its end."""
    order: int

    @classmethod
    def of(cls, words: pl.Series, vocabulary: pl.Series, order: int) -> "Sentences":
        """Convert lists of words. Word n of the vocabulary has the number n + 3."""
        lengths = words.list.len().to_numpy().astype(np.int64) + 1
        flat = words.explode(empty_as_null=False).cast(pl.String)
        numbers = vocabulary.to_frame("word").with_row_index("number", offset=END + 1)
        numbers_of_words = flat.to_frame("word").join(numbers, on="word", how="left", maintain_order="left")["number"]
        ids = np.full(int(lengths.sum()) + (order - 1) * len(lengths), BEGIN, np.uint64)
        ends = np.cumsum(lengths + order - 1) - 1
        ids[ends] = END
        is_word = np.ones(len(ids), bool)
        is_word[ends] = False
        for place in range(order - 1):
            is_word[ends - lengths - place] = False
        ids[is_word] = numbers_of_words.fill_null(UNKNOWN).to_numpy()
        return cls(ids, lengths, order)

    def keys(self) -> list[np.ndarray]:
        """Return the key of the n-gram that ends at each position, for n from 1 to `order`."""
        keys = [self.ids + np.uint64(1)]
        for _ in range(1, self.order):
            before = np.concatenate([np.zeros(1, np.uint64), keys[-1][:-1]])
            keys.append(before * _FACTOR + keys[0])
        return keys

    @property
    def foretold(self) -> np.ndarray:
        """Positions of words and sentence ends."""
        return np.flatnonzero(self.ids != BEGIN)


class LanguageModel:
    """Probabilities of words given the preceding words.

    Args:
        grams: columns order, key, share (C(h w) / (C(h) + T(h)), 0 for an n-gram that occurs only as a history) and
            left (T / (C + T) of the n-gram as a history), sorted by order and key.
        words: number of different words that can occur, including <unk> and the end.
    """

    def __init__(self, grams: pl.DataFrame, words: int) -> None:
        self.grams = grams
        self.words = words
        orders = grams.partition_by("order", maintain_order=True)
        self._orders = [tuple(table[name].to_numpy() for name in ("key", "share", "left")) for table in orders]

    @classmethod
    def learn(cls, sentences: Sentences, words: int) -> "LanguageModel":
        """Count the n-grams of the sentences."""
        places, keys = sentences.foretold, sentences.keys()
        orders = []
        for n, keys_n in enumerate(keys, 1):
            came, first, counts = np.unique(keys_n[places], return_index=True, return_counts=True)
            histories = keys[n - 2][places[first] - 1] if n > 1 else np.zeros(len(came), np.uint64)
            _, number = np.unique(histories, return_inverse=True)
            total, different = np.bincount(number, counts), np.bincount(number)
            share = counts / (total + different)[number]
            orders.append((came, share, histories, (different / (total + different))[number]))
        empty = orders[0][3][0]  # the mass that unigrams leave to the uniform distribution
        tables = []
        for n, (came, share, _, _) in enumerate(orders, 1):
            histories, left = orders[n][2:] if n < len(orders) else (came[:0], share[:0])
            own = pl.DataFrame({"key": came, "share": share})
            next_ = pl.DataFrame({"key": histories, "left": left}).unique("key")
            joined = own.join(next_, on="key", how="full", coalesce=True)
            tables.append(
                joined.select(
                    pl.lit(n, pl.UInt8).alias("order"),
                    "key",
                    pl.col("share").fill_null(0.0),
                    pl.col("left").fill_null(1.0),
                ).sort("key")
            )
        start = pl.DataFrame({"order": [0], "key": [0], "share": [0.0], "left": [empty]}, schema=_COLUMNS)
        return cls(pl.concat([start, *tables]), words)

    def cross_entropy(self, sentences: Sentences) -> np.ndarray:
        """Return the cross-entropy of each sentence, in nats per word. The end counts as a word."""
        places, keys = sentences.foretold, sentences.keys()
        _, _, left = self._orders[0]
        probability = np.full(len(places), 1.0 / self.words)
        left_N = np.full(len(sentences.ids), left[0])
        for (known, share, left), keys_n in zip(self._orders[1:], keys, strict=True):
            row = np.minimum(np.searchsorted(known, keys_n), len(known) - 1)
            is_known = known[row] == keys_n
            # The mass left by an n-gram's history is at the position before.
            of_history = left_N[places - 1] if keys_n is not keys[0] else left_N[places]
            probability = np.where(is_known, share[row], 0.0)[places] + of_history * probability
            left_N = np.where(is_known, left[row], 1.0)
        starts = np.cumsum(sentences.lengths) - sentences.lengths
        entropy: np.ndarray = -np.add.reduceat(np.log(probability), starts) if len(starts) else np.zeros(0)
        per_token: np.ndarray = entropy / sentences.lengths
        return per_token


def frequent(words: Sequence[pl.Series], at_least: int) -> pl.Series:
    """Return the words that occur at least `at_least` times, sorted."""
    flat = pl.concat([sentences.explode(empty_as_null=False) for sentences in words]).rename("word")
    return flat.value_counts(name="count").filter(pl.col("count") >= at_least)["word"].sort()
