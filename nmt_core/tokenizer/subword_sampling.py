"""Sample segmentations of words into pieces, for subword regularisation.

Segmentations are drawn from a unigram model (Kudo 2018, section 3.3), or by byte-pair encoding with merges left out at
random (BPE-dropout, Provilkov et al. 2020, section 3).

SentencePiece can sample too, but its generator differs from process to process whatever the seed, so the same recipe
would make other shards each time. Therefore this module draws the segmentations. No piece spans a space, so the
segmentation of a line consists of the segmentations of its words, drawn one by one.
"""

import math
import random
import re
from collections.abc import Iterator

from sentencepiece import sentencepiece_model_pb2

from nmt_core.tokenizer.pretokenize import BOUNDARY
from nmt_core.tokenizer.tokenizer import SPACE_MARK, UNK_ID, Tokenizer

_UNKNOWN_PENALTY = 10.0  # by which an unknown character scores below the least probable piece, as in SentencePiece


class WordSampler:
    """Sampler of segmentations of words for one tokenizer.

    Args:
        tokenizer: tokenizer of byte-pair encoding or of a unigram model.
        strength: value of `encode.subword_sampling`.
    """

    def __init__(self, tokenizer: Tokenizer, strength: float) -> None:
        model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.serialised())
        kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
        pieces = list(enumerate(model.pieces))
        self._ids = {piece.piece: index for index, piece in pieces if piece.type in (kinds.NORMAL, kinds.USER_DEFINED)}
        self._bytes = {int(piece.piece[1:-1], 16): index for index, piece in pieces if piece.type == kinds.BYTE}
        self._scores = {piece.piece: piece.score for _, piece in pieces if piece.type == kinds.NORMAL}
        kept_whole = sorted(
            (piece.piece for _, piece in pieces if piece.type == kinds.USER_DEFINED), key=len, reverse=True
        )
        self._symbols = re.compile(f"({'|'.join(map(re.escape, kept_whole))})") if kept_whole else None
        self._longest = max(map(len, self._scores), default=1)
        self._unknown = min(self._scores.values(), default=0.0) - _UNKNOWN_PENALTY
        self._strength = strength
        is_unigram = model.trainer_spec.model_type == model.trainer_spec.UNIGRAM
        self._cut = self._by_unigram if is_unigram else self._by_merges

    def draw(self, word: str, rng: random.Random) -> list[int]:
        """Return the ids of one word, the text between two spaces. An empty word has none."""
        if not word:
            return []
        parts = self._symbols.split(SPACE_MARK + word) if self._symbols else [SPACE_MARK + word]
        pieces = [
            piece
            for number, part in enumerate(parts)  # every second part is a symbol
            for piece in ([part] if number % 2 else self._cut(part, rng))
        ]
        return list(self._ids_of(pieces))

    def _ids_of(self, pieces: list[str]) -> Iterator[int]:
        """Yield the ids of the pieces. Consecutive unknown characters give one <unk>, or the bytes that spell them."""
        was_unknown = False
        for piece in pieces:
            index = self._ids.get(piece)
            if index is not None:
                if piece != BOUNDARY:
                    yield index
            elif self._bytes:
                yield from (self._bytes[byte] for byte in piece.encode())
            elif not was_unknown:
                yield UNK_ID
            was_unknown = index is None

    def _by_merges(self, text: str, rng: random.Random) -> list[str]:
        """Draw a segmentation by BPE-dropout (Provilkov et al. 2020, algorithm 1).

        Each possible merge is left out at random, and the best of the others is applied, until none is left. Without
        dropout, the segmentation equals byte-pair encoding.
        """
        symbols = list(text)
        while True:
            best, best_score = -1, -math.inf
            for place in range(len(symbols) - 1):
                score = self._scores.get(symbols[place] + symbols[place + 1], -math.inf)
                if score > best_score and rng.random() >= self._strength:
                    best, best_score = place, score
            if best < 0:
                return symbols
            symbols[best : best + 2] = [symbols[best] + symbols[best + 1]]

    def _by_unigram(self, text: str, rng: random.Random) -> list[str]:
        """Draw a segmentation in proportion to its probability to the power of `strength`.

        Weights are summed forward, and the segmentation is drawn backward.
        """
        total = [0.0] + [-math.inf] * len(text)  # logarithm of the weight of all segmentations up to each place
        pieces: list[list[tuple[float, int]]] = [[] for _ in range(len(text) + 1)]
        for end in range(1, len(text) + 1):
            for start in range(max(0, end - self._longest), end):
                score = self._scores.get(text[start:end])
                if score is None and end - start == 1:
                    score = self._unknown
                if score is not None:
                    pieces[end].append((total[start] + self._strength * score, start))
            greatest = max(weight for weight, _ in pieces[end])
            total[end] = greatest + math.log(sum(math.exp(weight - greatest) for weight, _ in pieces[end]))
        pieces_reversed, end = [], len(text)
        while end:
            weights = [math.exp(weight - total[end]) for weight, _ in pieces[end]]
            ((_, start),) = rng.choices(pieces[end], weights)
            pieces_reversed.append(text[start:end])
            end = start
        return pieces_reversed[::-1]
