"""Find the likely translations of each source piece by word alignment, counted over training text.

The model is IBM model 1 (Brown et al. 1993, section 4.1): each target piece is the translation of one source piece of
its sentence, or of none, regardless of positions. Expectation maximisation finds the table t(target | source) that
makes the text most probable. Mere co-occurrence would also propose the neighbours of a piece's translations. The
model attributes these neighbours to the source pieces that they translate.

Memory is bounded for any text, because the table has a fixed number of cells. If there are more pairs of pieces than
cells, the cell of a pair is found by hashing. Pairs in the same cell share its count, which raises the counts of rare
pairs and hardly changes frequent ones.

Letters in names of arrays: L links of a target piece with a source piece of its sentence, T target pieces of a text,
V source vocabulary, K translations of a piece.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from nmt_core.config import SIDES, ExportConfig
from nmt_core.search.shortlist import Shortlist
from nmt_core.tokenizer.bulk import BulkEncoder
from nmt_core.tokenizer.sample import Sample, count_pairs, text_shards
from nmt_core.tokenizer.tokenizer import PAD_ID, Tokenizers

_SEED = 1
"""Seed of the sample."""
_ITERATIONS = 4
_LEAST_POSTERIOR = 0.05
"""Smallest probability of a link that counts at the end."""
_CELLS = 1 << 26
_CHUNK_LINKS = 1 << 20
_CHUNK_LINES = 100_000
_LONGEST = 200
"""Maximum pieces of a side. A longer sentence tells little about each piece, and costs the product of both sides."""
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


def make_shortlist(split: Path, tokenizers: Tokenizers, config: ExportConfig) -> Shortlist:
    """Make the shortlist of a model. With a joint vocabulary, the first translation of each piece is itself, for names.

    Args:
        split: folder of the artifact `split` with the training text. The text is tokenized like text to translate. The
            shards of `encode` may not be, because of `encode.subword_sampling`.
        tokenizers: tokenizers of the model.
        config: section `export`, whose options `shortlist_*` are used.

    Raises:
        DataError: there is no training text.
    """
    shards = text_shards(split)
    sample = Sample(shards, min(1.0, config.shortlist_pairs / max(sum(map(count_pairs, shards)), 1)), _SEED)
    source, target = (
        encoded(sample.lines(side), BulkEncoder(tokenizer))
        for side, tokenizer in zip(SIDES, (tokenizers.source, tokenizers.target), strict=True)
    )
    sizes = (tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    found_VK = likeliest(source, target, sizes, config.shortlist_translations)
    if not tokenizers.source_vocab_size:
        found_VK = with_copies(found_VK)
    counts = np.bincount(target.ids, minlength=sizes[1])
    most = np.argsort(-counts, kind="stable")[: config.shortlist_frequent]
    narrowest = np.min_scalar_type(sizes[1] - 1)
    return Shortlist(most.astype(narrowest), found_VK.astype(narrowest), sizes[1])


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


def likeliest(source: Pieces, target: Pieces, sizes: Sequence[int], count: int) -> np.ndarray:
    """Return the likeliest translations of each source piece [V, K], likeliest first, padded with `PAD_ID`.

    Args:
        source: source side of a text.
        target: target side of the text.
        sizes: sizes of the source and the target vocabulary.
        count: K, the number of translations.
    """
    model = _Model1(*sizes)
    for _ in range(_ITERATIONS):
        model.learn(source, target)
    pairs, counts = model.expected(source, target)
    sources, targets = np.divmod(pairs, sizes[1])
    order = np.lexsort((targets, -counts, sources))
    sources, targets = sources[order], targets[order]
    ranks = np.arange(len(sources)) - np.searchsorted(sources, sources)
    is_kept = (ranks < count) & (sources < sizes[0])
    found_VK = np.full((sizes[0], count), PAD_ID, dtype=np.int64)
    found_VK[sources[is_kept], ranks[is_kept]] = targets[is_kept]
    return found_VK


def with_copies(translations_VK: np.ndarray) -> np.ndarray:
    """Return translations [V, K] in which each piece is its own first translation."""
    own_V1 = np.arange(len(translations_VK))[:, None]
    others_VK = np.where(translations_VK == own_V1, PAD_ID, translations_VK)
    closed_VK = np.take_along_axis(others_VK, np.argsort(others_VK == PAD_ID, axis=1, kind="stable"), axis=1)
    return np.concatenate([own_V1, closed_VK], axis=1)[:, : translations_VK.shape[1]]


@dataclass(frozen=True)
class _Links:
    """Links of every target piece of some sentences with every source piece of its sentence, and with none."""

    source_L: np.ndarray
    """Source ids. The size of the vocabulary means none."""
    target_L: np.ndarray
    starts_T: np.ndarray
    """Index of the first link of each target piece."""
    counts_T: np.ndarray
    """Number of links of each target piece."""

    def shares(self, weight_L: np.ndarray) -> np.ndarray:
        """Return the probability of each link [L] among the links of its target piece."""
        total_T = np.add.reduceat(weight_L, self.starts_T)
        share_L: np.ndarray = weight_L / np.repeat(total_T, self.counts_T)
        return share_L


class _Model1:
    """Table of expected counts: t(target | source) is the count of the pair over the count of the source."""

    def __init__(self, source_size: int, target_size: int) -> None:
        self.none = source_size
        self.target_size = target_size
        pairs = (source_size + 1) * target_size
        self.cells = min(pairs, _CELLS)
        self.is_hashed = pairs > _CELLS
        self.counts = np.zeros(0, np.float32)
        """Expected counts by cell. Empty before the first iteration, when all translations are equally probable."""
        self.totals_V = np.ones(source_size + 1)

    def learn(self, source: Pieces, target: Pieces) -> None:
        """Run one iteration of expectation maximisation."""
        counts, totals_V = np.zeros(self.cells, np.float32), np.zeros(len(self.totals_V))
        for links in _links(source, target, self.none):
            share_L = links.shares(self._weights(links))
            np.add.at(counts, self._cells(links), share_L)
            totals_V += np.bincount(links.source_L, share_L, len(totals_V))
        self.counts, self.totals_V = counts, np.maximum(totals_V, np.finfo(np.float32).tiny)

    def expected(self, source: Pieces, target: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """Return how often source pieces are translated by target pieces.

        Returns:
            Pairs, as source * `target_size` + target, and their counts.
        """
        found = [(np.zeros(0, np.int64), np.zeros(0))]
        for links in _links(source, target, self.none):
            share_L = links.shares(self._weights(links))
            is_counted = share_L >= _LEAST_POSTERIOR
            pairs = links.source_L[is_counted] * self.target_size + links.target_L[is_counted]
            found.append((pairs, share_L[is_counted].astype(np.float64)))
            if sum(len(pairs) for pairs, _ in found[1:]) > max(len(found[0][0]), _CHUNK_LINKS):
                found = [_summed(found)]
        return _summed(found)

    def _weights(self, links: _Links) -> np.ndarray:
        if not len(self.counts):
            return np.ones(len(links.source_L), np.float32)
        weight_L: np.ndarray = self.counts[self._cells(links)] / self.totals_V.astype(np.float32)[links.source_L]
        return weight_L

    def _cells(self, links: _Links) -> np.ndarray:
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


def _links(source: Pieces, target: Pieces, none: int) -> Iterator[_Links]:
    """Yield the links of all pairs that are not too long, in chunks of a few sentences."""
    lengths_2P = np.stack([source.lengths, target.lengths])
    pairs = np.flatnonzero((lengths_2P.max(axis=0) <= _LONGEST) & (lengths_2P.min(axis=0) > 0))
    ends = ((lengths_2P[0, pairs] + 1) * lengths_2P[1, pairs]).cumsum()
    first = 0
    while first < len(pairs):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _CHUNK_LINKS, side="right")))
        yield _links_of(source, target, pairs[first:last], none)
        first = last


def _links_of(source: Pieces, target: Pieces, pairs: np.ndarray, none: int) -> _Links:
    target_place_T = _ranges(target.starts[pairs], target.lengths[pairs])
    pair_T = np.repeat(pairs, target.lengths[pairs])
    counts_T = source.lengths[pair_T] + 1
    source_place_L = _ranges(source.starts[pair_T], counts_T)
    starts_T = counts_T.cumsum() - counts_T
    # The last link of each target piece is with none. Its index is after the sentence, and may be out of range.
    source_L = source.ids[np.minimum(source_place_L, len(source.ids) - 1)].astype(np.int64)
    source_L[starts_T + counts_T - 1] = none
    target_L = np.repeat(target.ids[target_place_T].astype(np.int64), counts_T)
    return _Links(source_L, target_L, starts_T, counts_T)


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the concatenated ranges that begin at `starts` and have `lengths`."""
    before = lengths.cumsum() - lengths
    places: np.ndarray = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return places
