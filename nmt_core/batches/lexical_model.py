"""Learn by word alignment which pieces translate each other: the models 1 and 2 of IBM, without torch.

Each target piece is the translation of one source piece of its sentence, or of none (Brown et al. 1993). Expectation
maximisation finds the table t(target | source) that makes the text most probable. In model 1, all source pieces are
equally probable before their translations are looked at. With positions, pieces near the diagonal are more probable:
exp(-tension * |i / m - j / n|) for target piece i of m and source piece j of n (Dyer et al. 2013, "A Simple, Fast, and
Effective Reparameterization of IBM Model 2").

Memory is bounded for any text, because the table has a fixed number of cells. If there are more pairs of pieces than
cells, the cell of a pair is found by hashing. Pairs in the same cell share its count, which raises the counts of rare
pairs and hardly changes frequent ones.

Letters in names of arrays: L links of a target piece with a source piece of its sentence, T target pieces of a text,
V source vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nmt_core.tokenizer.bulk import BulkEncoder

LEAST_POSTERIOR = 0.05
"""Smallest probability of a link that counts at the end."""
LONGEST = 200
"""Maximum pieces of a side. A longer sentence tells little about each piece, and costs the product of both sides."""
NONE_PROBABILITY = 0.08
"""Probability, with positions, that a target piece is the translation of none (Dyer et al. 2013)."""
_TENSIONS = (0.0, 1.0, 2.0, 4.0, 8.0)
_CELLS = 1 << 26
_CHUNK_LINKS = 1 << 20
_CHUNK_LINES = 100_000
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio. Its multiples are spread evenly (Knuth 1998, section 6.4)."""


@dataclass(frozen=True)
class Pieces:
    """Pieces of one side of a text. Sentence i has the ids `ids[starts[i] : starts[i + 1]]`, without end marks."""

    ids: np.ndarray
    starts: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Number of pieces of each sentence."""
        return np.diff(self.starts)


def encoded(lines: Iterator[str], encoder: BulkEncoder) -> Pieces:
    """Return the ids of lines, which are read in chunks."""
    ids, lengths = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    for chunk in _chunks(lines):
        rows = encoder.encode(pa.array(chunk, pa.string()))
        ids.append(rows.values.to_numpy().astype(np.int32))
        lengths.append(rows.value_lengths().to_numpy().astype(np.int64))
    return Pieces(np.concatenate(ids), np.concatenate(lengths).cumsum())


def _chunks(lines: Iterator[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == _CHUNK_LINES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


@dataclass(frozen=True)
class Links:
    """Links of every target piece of some sentences with every source piece of its sentence, and with none."""

    pairs: np.ndarray
    """Numbers of the pairs of sentences."""
    source_L: np.ndarray
    """Source ids. The size of the vocabulary means none."""
    target_L: np.ndarray
    starts_T: np.ndarray
    """Index of the first link of each target piece."""
    counts_T: np.ndarray
    """Number of links of each target piece. The last one is with none."""
    place_T: np.ndarray
    """Position of each target piece in its sentence, from 0."""
    length_T: np.ndarray
    """Number of target pieces of the sentence of each target piece."""

    @property
    def is_none(self) -> np.ndarray:
        """True for links with none, [L]."""
        is_none_L = np.zeros(len(self.source_L), bool)
        is_none_L[self.starts_T + self.counts_T - 1] = True
        return is_none_L

    def prior(self, tension: float) -> np.ndarray:
        """Return the probability of each link [L] by positions alone (Dyer et al. 2013)."""
        source_place_L = np.arange(len(self.source_L)) - np.repeat(self.starts_T, self.counts_T)
        share_T = (self.place_T + 0.5) / self.length_T
        share_L = (source_place_L + 0.5) / np.repeat(np.maximum(self.counts_T - 1, 1), self.counts_T)
        near_L = np.exp(-tension * np.abs(np.repeat(share_T, self.counts_T) - share_L))
        is_none_L = self.is_none
        near_L[is_none_L] = 0
        prior_L: np.ndarray = (1 - NONE_PROBABILITY) * self.shares(near_L)
        prior_L[is_none_L] = NONE_PROBABILITY
        return prior_L

    def shares(self, weight_L: np.ndarray) -> np.ndarray:
        """Return the probability of each link [L] among the links of its target piece."""
        total_T = np.add.reduceat(weight_L, self.starts_T)
        share_L: np.ndarray = weight_L / np.repeat(total_T, self.counts_T)
        return share_L


class LexicalModel:
    """Table of expected counts: t(target | source) is the count of the pair over the count of the source.

    Args:
        source_size: number of pieces of the source vocabulary.
        target_size: number of pieces of the target vocabulary.
        has_positions: True for model 2, in which pieces near the diagonal are more probable.
    """

    def __init__(self, source_size: int, target_size: int, *, has_positions: bool = False) -> None:
        self.none = source_size
        self.target_size = target_size
        pairs = (source_size + 1) * target_size
        self.cells = min(pairs, _CELLS)
        self.is_hashed = pairs > _CELLS
        self.counts = np.zeros(0, np.float32)
        """Expected counts by cell. Empty before the first iteration, when all translations are equally probable."""
        self.totals_V = np.ones(source_size + 1)
        self.has_positions = has_positions
        self.tension = 0.0
        """Preference for the diagonal. 0 means none."""

    def learn(self, source: Pieces, target: Pieces) -> None:
        """Run one iteration of expectation maximisation."""
        counts, totals_V = np.zeros(self.cells, np.float32), np.zeros(len(self.totals_V))
        for links in links_of(source, target, self.none):
            share_L = links.shares(self.weights(links))
            np.add.at(counts, self._cells(links), share_L)
            totals_V += np.bincount(links.source_L, share_L, len(totals_V))
        self.counts, self.totals_V = counts, np.maximum(totals_V, np.finfo(np.float32).tiny)

    def expected(self, source: Pieces, target: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """Return how often source pieces are translated by target pieces.

        Returns:
            Pairs, as source * `target_size` + target, and their counts.
        """
        found = [(np.zeros(0, np.int64), np.zeros(0))]
        for links in links_of(source, target, self.none):
            share_L = links.shares(self.weights(links))
            is_counted = share_L >= LEAST_POSTERIOR
            pairs = links.source_L[is_counted] * self.target_size + links.target_L[is_counted]
            found.append((pairs, share_L[is_counted].astype(np.float64)))
            if sum(len(pairs) for pairs, _ in found[1:]) > max(len(found[0][0]), _CHUNK_LINKS):
                found = [_summed(found)]
        return _summed(found)

    def tighten(self, source: Pieces, target: Pieces) -> None:
        """Choose the tension with which the first sentences are most probable. Needs `has_positions`."""
        links = next(links_of(source, target, self.none), None)
        if links is not None:
            translation_L = self._translation(links)
            logs = [
                float(np.log(np.add.reduceat(translation_L * links.prior(tension), links.starts_T)).sum())
                for tension in _TENSIONS
            ]
            self.tension = _TENSIONS[int(np.argmax(logs))]

    def weights(self, links: Links) -> np.ndarray:
        """Return the weight of each link [L]. The weights of a target piece are proportional to probabilities."""
        translation_L = self._translation(links)
        if not self.has_positions:
            return translation_L
        weight_L: np.ndarray = translation_L * links.prior(self.tension).astype(np.float32)
        return weight_L

    def _translation(self, links: Links) -> np.ndarray:
        """Return t(target | source) of each link, [L]."""
        if not len(self.counts):
            return np.ones(len(links.source_L), np.float32)
        translation_L: np.ndarray = self.counts[self._cells(links)] / self.totals_V.astype(np.float32)[links.source_L]
        return translation_L

    def _cells(self, links: Links) -> np.ndarray:
        cell_L: np.ndarray = links.source_L * self.target_size + links.target_L
        if self.is_hashed:
            mixed_L = cell_L.view(np.uint64) * _GOLDEN
            cell_L = (mixed_L >> np.uint64(64 - _CELLS.bit_length() + 1)).view(np.int64)
        return cell_L


def _summed(found: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct pairs, with the sum of the counts of each."""
    pairs, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
    distinct, places = np.unique(pairs, return_inverse=True)
    return distinct, np.bincount(places, counts, len(distinct))


def links_of(source: Pieces, target: Pieces, none: int, longest: int = LONGEST) -> Iterator[Links]:
    """Yield the links of all pairs that are neither empty nor too long, in chunks of a few sentences.

    Args:
        source: source side of a text.
        target: target side of the text.
        none: id that means no source piece.
        longest: maximum pieces of a side.
    """
    lengths_2P = np.stack([source.lengths, target.lengths])
    pairs = np.flatnonzero((lengths_2P.max(axis=0) <= longest) & (lengths_2P.min(axis=0) > 0))
    ends = ((lengths_2P[0, pairs] + 1) * lengths_2P[1, pairs]).cumsum()
    first = 0
    while first < len(pairs):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _CHUNK_LINKS, side="right")))
        yield _chunk_of(source, target, pairs[first:last], none)
        first = last


def _chunk_of(source: Pieces, target: Pieces, pairs: np.ndarray, none: int) -> Links:
    target_place_T = _ranges(target.starts[pairs], target.lengths[pairs])
    pair_T = np.repeat(pairs, target.lengths[pairs])
    counts_T = source.lengths[pair_T] + 1
    source_place_L = _ranges(source.starts[pair_T], counts_T)
    starts_T = counts_T.cumsum() - counts_T
    # The last link of each target piece is with none. Its index is after the sentence, and may be out of range.
    source_L = source.ids[np.minimum(source_place_L, len(source.ids) - 1)].astype(np.int64)
    source_L[starts_T + counts_T - 1] = none
    target_L = np.repeat(target.ids[target_place_T].astype(np.int64), counts_T)
    place_T = _ranges(np.zeros_like(pairs), target.lengths[pairs])
    return Links(pairs, source_L, target_L, starts_T, counts_T, place_T, target.lengths[pair_T])


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the concatenated ranges that begin at `starts` and have `lengths`."""
    before = lengths.cumsum() - lengths
    places: np.ndarray = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return places
