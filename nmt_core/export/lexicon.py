"""Which target pieces are likely translations of a source piece: word alignment, counted over training text.

IBM model 1 (Brown et al. 1993, section 4.1): each target piece is the translation of one source piece of its sentence,
or of none, whatever their places; the table t(target | source) that makes the text most probable is found by
expectation maximisation. Co-occurrence alone would offer each piece the neighbours of its translations as well; in the
model these are explained by the pieces that they translate.

Memory is bounded, whatever the text: the table has a fixed number of cells. If there are more pairs of pieces than
that, a pair's cell is found by hashing; pairs that share one share its count, which lifts rare pairs and leaves
frequent ones as they are.

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
"""Of the sample."""
_ITERATIONS = 4
_LEAST_POSTERIOR = 0.05
"""Links less probable than this at the end are not counted."""
_CELLS = 1 << 26
_CHUNK_LINKS = 1 << 20
_CHUNK_LINES = 100_000
_LONGEST = 200
"""Pieces of a side; a sentence of so many tells little of any, and costs the product of both sides."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: multiples of it are spread evenly (Knuth 1998, section 6.4)."""


@dataclass(frozen=True)
class Pieces:
    """One side of a text: the ids of sentence i are `ids[starts[i] : starts[i + 1]]`, without end marks."""

    ids: np.ndarray
    starts: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Pieces of each sentence."""
        return np.diff(self.starts)


def make_shortlist(split: Path, tokenizers: Tokenizers, config: ExportConfig) -> Shortlist:
    """The shortlist of a model. With a joint vocabulary each piece is its own first translation: names are copied.

    Args:
        split: folder of the artifact `split`, with the training text; it is cut into pieces as text to translate is,
            which the shards of `encode`, with `encode.subword_sampling`, need not be.
        tokenizers: of the model.
        config: its `shortlist_*`.

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
    """Ids of lines, read in chunks."""
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
    """The `count` likeliest translations of each source piece, likeliest first, filled up with `PAD_ID`: [V, K].

    Args:
        source: one side of a text.
        target: the other side.
        sizes: pieces of the source's and of the target's vocabulary.
        count: K.
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
    """The same, with each piece the first of its own translations."""
    own_V1 = np.arange(len(translations_VK))[:, None]
    others_VK = np.where(translations_VK == own_V1, PAD_ID, translations_VK)
    closed_VK = np.take_along_axis(others_VK, np.argsort(others_VK == PAD_ID, axis=1, kind="stable"), axis=1)
    return np.concatenate([own_V1, closed_VK], axis=1)[:, : translations_VK.shape[1]]


@dataclass(frozen=True)
class _Links:
    """Every target piece of some sentences with every source piece of its sentence, and with none."""

    source_L: np.ndarray
    """Source ids; none has the id behind the last."""
    target_L: np.ndarray
    starts_T: np.ndarray
    """Where the links of each target piece begin..."""
    counts_T: np.ndarray
    """...and how many they are."""

    def shares(self, weight_L: np.ndarray) -> np.ndarray:
        """How probable each link is among those of its target piece."""
        total_T = np.add.reduceat(weight_L, self.starts_T)
        share_L: np.ndarray = weight_L / np.repeat(total_T, self.counts_T)
        return share_L


class _Model1:
    """The table, as expected counts: t(target | source) is the count of the pair over that of the source."""

    def __init__(self, source_size: int, target_size: int) -> None:
        self.none = source_size
        self.target_size = target_size
        pairs = (source_size + 1) * target_size
        self.cells = min(pairs, _CELLS)
        self.is_hashed = pairs > _CELLS
        self.counts = np.zeros(0, np.float32)
        """Of no cell before anything was learnt: then all translations are equally probable."""
        self.totals_V = np.ones(source_size + 1)

    def learn(self, source: Pieces, target: Pieces) -> None:
        """One iteration of expectation maximisation."""
        counts, totals_V = np.zeros(self.cells, np.float32), np.zeros(len(self.totals_V))
        for links in _links(source, target, self.none):
            share_L = links.shares(self._weights(links))
            np.add.at(counts, self._cells(links), share_L)
            totals_V += np.bincount(links.source_L, share_L, len(totals_V))
        self.counts, self.totals_V = counts, np.maximum(totals_V, np.finfo(np.float32).tiny)

    def expected(self, source: Pieces, target: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """How often a source piece was translated by a target piece: pairs, as source * V + target, and counts."""
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
    """The sum of the counts of each pair."""
    pairs, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
    distinct, places = np.unique(pairs, return_inverse=True)
    return distinct, np.bincount(places, counts, len(distinct))


def _links(source: Pieces, target: Pieces, none: int) -> Iterator[_Links]:
    """The links of all pairs that are not too long, in chunks of some sentences."""
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
    # The last link of each target piece is that with none; the place behind a sentence is another's, or nobody's.
    source_L = source.ids[np.minimum(source_place_L, len(source.ids) - 1)].astype(np.int64)
    source_L[starts_T + counts_T - 1] = none
    target_L = np.repeat(target.ids[target_place_T].astype(np.int64), counts_T)
    return _Links(source_L, target_L, starts_T, counts_T)


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start, start + 1 ... of each, `lengths` of them, end to end."""
    before = lengths.cumsum() - lengths
    places: np.ndarray = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return places
