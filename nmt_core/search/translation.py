"""Translations of lines, and their assembly from the translations of parts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Literal

from nmt_core.search.alignment import Alignment, joined

Status = Literal["ok", "empty", "split", "cut", "unfinished", "prefix_unknown"]


@dataclass(frozen=True)
class Alternative:
    """Another translation of a line."""

    text: str
    score: float
    alignment: Alignment | None = None
    """Links to the line, as in `Translation.alignment`."""

    def record(self) -> dict[str, Any]:
        """Return text, score and alignment, see `Translation.record`."""
        record = {"text": self.text, "score": None if isnan(self.score) else self.score}
        return record if self.alignment is None else record | {"alignment": self.alignment.pharaoh}

    def aligned_by_words(self, source: str) -> "Alternative":
        """Return the same with links between words. `source` is the line."""
        return replace(self, alignment=self.alignment and self.alignment.of_words(source, self.text))


@dataclass(frozen=True)
class Translation:
    """Translation of one line."""

    text: str
    """Text of one line, without a line break. Empty if there was nothing to translate."""
    score: float
    """Log-probability in nats over the length penalty. 0 if there was nothing to translate. For a line that was split,
    the mean over its sentences, weighted by their tokens. NaN if there are no scores (`Translator.load`)."""
    status: Status
    """Outcome of the translation. `ok`: the whole line was translated. `empty`: the line has no text. `split`: the line
    was longer than `max_source_tokens`, and its sentences were translated one by one. `cut`: the line was longer, and
    its end was left out (`search.long_lines` chooses). `unfinished`: the translation, or the translation of a sentence,
    reached its greatest length before its end. `prefix_unknown`: the tokenizer has no pieces for the requested
    beginning of the translation, so the beginning is free."""
    tokens: int = 0
    """Number of tokens of the translation, without the end mark."""
    alternatives: tuple[Alternative, ...] = ()
    """Other translations of `search.n_best`, best first, or samples in the order of their numbers. There may be fewer:
    a beam cannot find more than there are, and a line that was split has none."""
    alignment: Alignment | None = None
    """Links between the words of the line and the words of the translation, or between pieces (`search.alignments`).
    None means that they were not requested."""

    def record(self) -> dict[str, Any]:
        """Return the translation as JSON holds it: text, score, status and tokens.

        It also has n_best, the best first, if there are other translations, and alignment, in the Pharaoh format, if
        there is one. A score that is not known is None.
        """
        best = Alternative(self.text, self.score, self.alignment)
        whole = best.record() | {"status": self.status, "tokens": self.tokens}
        if not self.alternatives:
            return whole
        return whole | {"n_best": [best.record(), *(other.record() for other in self.alternatives)]}

    def without_prefix(self) -> "Translation":
        """Return the same with the status `prefix_unknown`, unless there was nothing to translate.

        It is for a line whose prefix the tokenizer cannot spell.
        """
        return self if self.status == "empty" else replace(self, status="prefix_unknown")

    def aligned_by_words(self, source: str) -> "Translation":
        """Return the same with links between words, from links between pieces. `source` is the line."""
        return replace(
            self,
            alignment=self.alignment and self.alignment.of_words(source, self.text),
            alternatives=tuple(other.aligned_by_words(source) for other in self.alternatives),
        )


def whole(pieces: Sequence[Translation], how: Literal["split", "cut"] | None, joiner: str) -> Translation:
    """Return the translation of a line from the translations of its pieces.

    `how` is the way in which the line was made shorter, if it was too long.
    """
    if not pieces:
        return Translation("", 0.0, "empty")
    if how is None:
        return pieces[0]
    if how == "cut":
        return replace(pieces[0], status="cut")
    tokens = sum(piece.tokens for piece in pieces)
    score = sum(piece.score * piece.tokens for piece in pieces) / max(tokens, 1)
    status: Status = "unfinished" if any(piece.status == "unfinished" for piece in pieces) else "split"
    alignments = [piece.alignment for piece in pieces if piece.alignment]
    alignment = joined(alignments) if alignments else None
    text = joiner.join(piece.text for piece in pieces if piece.text)
    return Translation(text, score, status, tokens, alignment=alignment)
