"""Align the pieces of sentence pairs by statistics alone, for the guided alignment of a model. Imports no torch.

Model 2 of IBM is learned in both directions, and the alignments of both are joined by grow-diag-final-and (Koehn et al.
2005, "Edinburgh System Description for the 2005 IWSLT Speech Translation Evaluation"). All new links next to known ones
are added at once, so the result does not depend on an order of links.

A model has one likeliest source position for each target piece. So each target piece keeps its most certain link. The
certainty is the product of both translation probabilities. Endings and particles are often linked with an article or a
preposition elsewhere in the source. So the certainty of the first piece of a word counts twice, and a piece whose link
is less than half as certain as the best link of its word is linked as that one is. Punctuation is linked with
punctuation only: verbs at the end of every sentence would else be linked with its full stop.

Letters in names of arrays: B pairs of a chunk, S and T their source and target positions, and of a text, one after the
other, S source pieces, T target pieces, L links, W target words, V target vocabulary, E entries of a table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.numpy

from nmt_core.batches.lexical_model import LexicalModel, Links, Pieces, encoded, links_of
from nmt_core.config import SIDES
from nmt_core.store.atomic import replacing
from nmt_core.text.unspaced import UNSPACED
from nmt_core.tokenizer.bulk import BulkEncoder
from nmt_core.tokenizer.sample import Sample, count_pairs, text_shards
from nmt_core.tokenizer.tokenizer import SPACE_MARK, Tokenizer, Tokenizers

_SEED = 1
"""Seed of the sample."""
_MOST_PAIRS = 500_000
"""Approximate number of sentence pairs from which the tables are learned. Larger text is sampled."""
_ITERATIONS = 5
_LEAST_PROBABILITY = 1e-9
"""Probability of a translation that is not in the table."""
_LEAST_CERTAIN = 0.5
"""Certainty of a link, as a share of the certainty of the best link of its word, from which on a piece keeps it."""
_FIRST_PIECE = 2.0
"""Factor on the certainty of the first piece of a word. Most languages put endings and particles behind."""
_CHUNK_CELLS = 1 << 21
_WAYS = ("forward", "backward")
_AROUND = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
"""Steps from a link to its neighbours."""


@dataclass(frozen=True)
class Vocabulary:
    """Pieces of one side."""

    begins_V: np.ndarray
    """True for pieces that begin a word. In scripts without spaces, every piece counts as a word."""
    is_mark_V: np.ndarray
    """True for pieces of punctuation and other signs alone. Each is a word of its own."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Vocabulary":
        """Return the vocabulary of a tokenizer."""
        pieces = [tokenizer.piece(number) for number in range(tokenizer.vocab_size)]
        is_mark_V = np.array([_is_mark(piece.removeprefix(SPACE_MARK)) for piece in pieces])
        begins = [piece.startswith(SPACE_MARK) or bool(UNSPACED.search(piece)) for piece in pieces]
        return cls(np.array(begins) | is_mark_V, is_mark_V)

    def __len__(self) -> int:
        return len(self.begins_V)


def _is_mark(text: str) -> bool:
    return bool(text) and not any(character.isalnum() for character in text)


@dataclass(frozen=True)
class Direction:
    """Table of one direction, in which each target piece is the translation of one source piece or of none."""

    pairs_E: np.ndarray
    """Pairs of pieces in ascending order: source * `target_size` + target. `none` is a source piece too."""
    probability_E: np.ndarray
    """t(target | source) of each pair, fp32."""
    tension: float
    """Preference for the diagonal (see `lexical_model`)."""
    source: Vocabulary
    target: Vocabulary

    @classmethod
    def learn(cls, source: Pieces, target: Pieces, vocabularies: tuple[Vocabulary, Vocabulary]) -> "Direction":
        """Learn the table from a text.

        Args:
            source: source side of the text.
            target: target side of the text.
            vocabularies: vocabularies of the source and the target.
        """
        model = LexicalModel(*map(len, vocabularies), has_positions=True)
        for iteration in range(_ITERATIONS):
            if iteration:
                model.tighten(source, target)
            model.learn(source, target)
        pairs_E, counts_E = model.expected(source, target)
        probability_E = counts_E / model.totals_V[pairs_E // len(vocabularies[1])]
        return cls(pairs_E, probability_E.astype(np.float32), model.tension, *vocabularies)

    def align(self, source: Pieces, target: Pieces) -> np.ndarray:
        """Return the position of the likeliest source piece of each target piece of a text. -1 means none."""
        found_T = np.full(len(target.ids), -1, np.int64)
        longest = int(max(source.lengths.max(initial=1), target.lengths.max(initial=1)))
        for links in links_of(source, target, len(self.source), longest):
            starts = np.repeat(target.starts[links.pairs], target.lengths[links.pairs])
            found_T[starts + links.place_T] = self._likeliest(links)
        return found_T

    def probability(self, source_L: np.ndarray, target_L: np.ndarray) -> np.ndarray:
        """Return t(target | source) of pairs of ids, [L]."""
        if not len(self.pairs_E):
            return np.full(len(source_L), _LEAST_PROBABILITY)
        pair_L = source_L.astype(np.int64) * len(self.target) + target_L
        entry_L = np.minimum(np.searchsorted(self.pairs_E, pair_L), len(self.pairs_E) - 1)
        probability_L: np.ndarray = np.where(
            self.pairs_E[entry_L] == pair_L, self.probability_E[entry_L], _LEAST_PROBABILITY
        )
        return probability_L

    def _likeliest(self, links: Links) -> np.ndarray:
        weight_L = self.probability(links.source_L, links.target_L) * links.prior(self.tension)
        none = False  # a piece of any kind may be linked with none
        is_mark_L = np.append(self.source.is_mark_V, none)[links.source_L]
        weight_L[(is_mark_L != self.target.is_mark_V[links.target_L]) & ~links.is_none] = 0
        best_T = np.maximum.reduceat(weight_L, links.starts_T)
        best_L = np.flatnonzero(weight_L == np.repeat(best_T, links.counts_T))
        place_T: np.ndarray = best_L[np.searchsorted(best_L, links.starts_T)] - links.starts_T
        return np.where(place_T == links.counts_T - 1, -1, place_T)


@dataclass(frozen=True)
class Aligner:
    """Aligner of one pair of languages: a table for each direction."""

    forward: Direction
    backward: Direction
    """Table in which each source piece is the translation of one target piece or of none."""

    @classmethod
    def learn(cls, source: Pieces, target: Pieces, vocabularies: tuple[Vocabulary, Vocabulary]) -> "Aligner":
        """Learn both tables from a text."""
        return cls(Direction.learn(source, target, vocabularies), Direction.learn(target, source, vocabularies[::-1]))

    def align(self, source: Pieces, target: Pieces) -> np.ndarray:
        """Return the position of the source piece that each target piece of a text is linked with. -1 means none."""
        piece_L, place_L = self._links(source, target)
        sentence_T = np.repeat(np.arange(len(target.lengths)), target.lengths)
        source_L = source.ids[source.starts[sentence_T[piece_L]] + place_L]
        target_L = target.ids[piece_L]
        certainty_L = self.forward.probability(source_L, target_L) * self.backward.probability(target_L, source_L)
        place_T, certainty_T = _most_certain(piece_L, place_L, certainty_L, len(target.ids))
        begins_T = self.forward.target.begins_V[target.ids]
        begins_T[target.starts[:-1][target.lengths > 0]] = True
        certainty_T[begins_T] *= _FIRST_PIECE
        word_T = begins_T.cumsum() - 1
        place_W, certainty_W = _most_certain(word_T, place_T, certainty_T, int(begins_T.sum()))
        is_weak_T = certainty_T < _LEAST_CERTAIN * certainty_W[word_T]
        return np.where(is_weak_T, place_W[word_T], place_T)

    def _links(self, source: Pieces, target: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """Return the links of both directions, joined: target piece in the text [L], source position [L]."""
        forward_T, backward_S = self.forward.align(source, target), self.backward.align(target, source)
        pieces, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for first, last in _chunks(source.lengths, target.lengths):
            rows = slice(first, last)
            forward_BTS = _matrix(forward_T, target, source, rows)
            backward_BTS = _matrix(backward_S, source, target, rows).transpose(0, 2, 1)
            row_L, target_L, source_L = np.nonzero(grow_diag_final_and(forward_BTS, backward_BTS))
            pieces.append(target.starts[first:last][row_L] + target_L)
            places.append(source_L)
        return np.concatenate(pieces), np.concatenate(places)

    def save(self, file: Path) -> None:
        """Write the tables to a file."""
        arrays = {
            f"{name}.{key}": value
            for name, direction in zip(_WAYS, (self.forward, self.backward), strict=True)
            for key, value in (
                ("pairs", direction.pairs_E),
                ("probability", direction.probability_E),
                ("tension", np.array(direction.tension)),
                ("begins", direction.target.begins_V),
                ("is_mark", direction.target.is_mark_V),
            )
        }
        with replacing(file) as draft:
            safetensors.numpy.save_file(arrays, draft)

    @classmethod
    def load(cls, file: Path) -> "Aligner":
        """Read the tables of a file that `save` wrote."""
        arrays = safetensors.numpy.load_file(file)
        target, source = (Vocabulary(arrays[f"{way}.begins"], arrays[f"{way}.is_mark"]) for way in _WAYS)
        forward, backward = (
            (arrays[f"{way}.pairs"], arrays[f"{way}.probability"], float(arrays[f"{way}.tension"])) for way in _WAYS
        )
        return cls(Direction(*forward, source, target), Direction(*backward, target, source))


def learn_aligner(split: Path, tokenizers: Tokenizers) -> Aligner:
    """Learn an aligner from a sample of the training text.

    Args:
        split: folder of the artifact `split` with the training text.
        tokenizers: tokenizers of the model.

    Raises:
        DataError: there is no training text.
    """
    shards = text_shards(split)
    sample = Sample(shards, min(1.0, _MOST_PAIRS / max(sum(map(count_pairs, shards)), 1)), _SEED)
    sides = (tokenizers.source, tokenizers.target)
    source, target = (
        encoded(sample.lines(side), BulkEncoder(tokenizer)) for side, tokenizer in zip(SIDES, sides, strict=True)
    )
    return Aligner.learn(source, target, (Vocabulary.of(sides[0]), Vocabulary.of(sides[1])))


def _most_certain(
    owner_L: np.ndarray, place_L: np.ndarray, certainty_L: np.ndarray, owners: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the most certain place of each owner, and its certainty. Without any, they are -1 and 0."""
    place, certainty = np.full(owners, -1, np.int64), np.zeros(owners)
    order = np.lexsort((certainty_L, owner_L))  # of several values, the last one is kept
    place[owner_L[order]], certainty[owner_L[order]] = place_L[order], certainty_L[order]
    return place, certainty


def _chunks(source_N: np.ndarray, target_N: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield runs of pairs whose padded matrices have about `_CHUNK_CELLS` cells."""
    first, longest = 0, np.zeros(2, np.int64)
    for number, lengths in enumerate(zip(source_N.tolist(), target_N.tolist(), strict=True)):
        wider = np.maximum(longest, lengths)
        if number > first and (number + 1 - first) * int(wider.prod()) > _CHUNK_CELLS:
            yield first, number
            first, wider = number, np.array(lengths)
        longest = wider
    if first < len(source_N):
        yield first, len(source_N)


def _matrix(place: np.ndarray, own: Pieces, others: Pieces, rows: slice) -> np.ndarray:
    """Return the alignment of one direction as a matrix for each pair: pieces of this side by pieces of the other."""
    lengths_B = own.lengths[rows]
    matrix = np.zeros((len(lengths_B), lengths_B.max(initial=0), others.lengths[rows].max(initial=0)), bool)
    row = np.repeat(np.arange(len(lengths_B)), lengths_B)
    first = own.starts[rows.start]
    position = np.arange(lengths_B.sum()) - np.repeat(own.starts[rows.start : rows.stop] - first, lengths_B)
    of_chunk = place[first : first + len(row)]
    linked = of_chunk >= 0
    matrix[row[linked], position[linked], of_chunk[linked]] = True
    return matrix


def grow_diag_final_and(forward_BTS: np.ndarray, backward_BTS: np.ndarray) -> np.ndarray:
    """Join the alignments of two directions, [B, T, S].

    Begin with the links of both. Add links of one that are next to a known link, if they align a piece that had none,
    until there are no more. At last, add links of one whose pieces both have none.
    """
    either_BTS: np.ndarray = forward_BTS | backward_BTS
    found_BTS: np.ndarray = forward_BTS & backward_BTS
    links, before = int(found_BTS.sum()), -1
    while links != before:
        for step in _AROUND:
            found_BTS |= _moved(found_BTS, step) & either_BTS & (_is_free(found_BTS, 1) | _is_free(found_BTS, 2))
        links, before = int(found_BTS.sum()), links
    for one_BTS in (forward_BTS, backward_BTS):
        new_BTS = one_BTS & _is_free(found_BTS, 1) & _is_free(found_BTS, 2)
        # Several pieces may be linked with one free piece. The first of them gets it.
        found_BTS |= new_BTS & (new_BTS.cumsum(axis=1) == 1) & (new_BTS.cumsum(axis=2) == 1)
    return found_BTS


def _is_free(found_BTS: np.ndarray, axis: int) -> np.ndarray:
    """Return True where no link is found along an axis."""
    is_free: np.ndarray = np.logical_not(found_BTS.any(axis=axis, keepdims=True))
    return is_free


def _moved(found_BTS: np.ndarray, step: tuple[int, int]) -> np.ndarray:
    """Return the links one step further: True at (t, s) if there is a link at (t, s) - step."""
    moved_BTS = np.zeros_like(found_BTS)
    (to_t, from_t), (to_s, from_s) = map(_slices, step)
    moved_BTS[:, to_t, to_s] = found_BTS[:, from_t, from_s]
    return moved_BTS


def _slices(step: int) -> tuple[slice, slice]:
    """Return where a move by one step writes, and what it reads."""
    if not step:
        return slice(None), slice(None)
    after, before = slice(1, None), slice(None, -1)
    return (after, before) if step > 0 else (before, after)
