"""Choose the size of a vocabulary: the largest in which most pieces are frequent enough to be learned.

Gowda and May (2020, "Finding the Optimal Vocabulary Size for Neural Machine Translation") count how often the pieces of
a vocabulary occur in the training text, and find that models translate best with the largest vocabulary of which nearly
all pieces occur at least 100 times. This module learns byte-pair encodings of a sample, and counts their pieces.
Pieces of one character do not count, because every vocabulary has them. `SHARE` of the others must be that frequent. It
is less than the authors' 95%, with which 29,000 image captions would get 500 pieces and twice as many tokens.
"""

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sentencepiece

SIZES = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
OCCURRENCES = 100
SHARE = 0.8

_SPECIAL_PIECES = 4
_SPACE = "▁"
_BYTES_OF_A_PIECE = 3  # fewer than any vocabulary of these sizes has on average
_MAX_SENTENCE_BYTES = 1 << 20
_MANY_CHARACTERS = 1_500
_BY_PAIRS = ((6_000, 500), (20_000, 1_000), (60_000, 2_000), (180_000, 4_000), (500_000, 8_000), (1_500_000, 16_000))
"""Number of pairs below which a size is right. Measured by this rule on Multi30k and on parts of Debian's text."""


@dataclass(frozen=True)
class Vocabulary:
    """Size of a vocabulary, and what it makes of the sample."""

    size: int
    frequent: float | None
    """Share of its pieces of several characters that are frequent. None means that no text was looked at."""
    lengths: np.ndarray | None
    """Number of tokens of each line."""


def coverage_of(lines: Sequence[str]) -> float:
    """Return the share of the characters that get a piece: nearly all for scripts of many characters, else all."""
    characters = Counter("".join(lines))
    return 0.9995 if len(characters) > _MANY_CHARACTERS else 1.0


def by_pairs(pairs: int) -> Vocabulary:
    """Return the size for text of which only the number of pairs is known."""
    size = next((size for below, size in _BY_PAIRS if pairs < below), SIZES[-1])
    return Vocabulary(size, None, None)


def by_frequency(lines: Sequence[str], factor: float, coverage: float) -> Vocabulary:
    """Return the largest size in which enough pieces are frequent.

    Args:
        lines: sample of the text of one vocabulary.
        factor: number of times that the whole text is as long as the sample.
        coverage: share of the characters that get a piece.
    """
    tokens = sum(len(line.encode()) for line in lines) / _BYTES_OF_A_PIECE * factor
    smallest: Vocabulary | None = None
    for size in reversed(SIZES):
        if size > SIZES[0] and size * OCCURRENCES * SHARE > tokens:
            continue
        model = _learned(lines, size, coverage)
        if model is None:
            continue
        encoded = model.encode(list(lines))
        counts = np.bincount(np.concatenate([*map(np.asarray, encoded), np.zeros(0)]).astype(int), minlength=size)
        is_long = [len(model.id_to_piece(place).lstrip(_SPACE)) > 1 for place in range(size)]
        is_long[:_SPECIAL_PIECES] = [False] * _SPECIAL_PIECES
        frequent = float((counts[is_long] * factor >= OCCURRENCES).mean()) if any(is_long) else 0.0
        smallest = Vocabulary(size, frequent, np.array([len(ids) + 1 for ids in encoded]))
        if frequent >= SHARE:
            return smallest
    return smallest or Vocabulary(_least(lines), 0.0, None)


def _learned(lines: Sequence[str], size: int, coverage: float) -> sentencepiece.SentencePieceProcessor | None:
    """Return a model, or None if the text has too few pieces for this size, or too many characters."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            character_coverage=coverage,
            normalization_rule_name="identity",
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            max_sentence_length=_MAX_SENTENCE_BYTES,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError:
        return None
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def _least(lines: Sequence[str]) -> int:
    """Return a size for text so uniform that no larger one fits: its characters, and some pieces."""
    return max(64, len(set("".join(lines))) + 3 * _SPECIAL_PIECES)
