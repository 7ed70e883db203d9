"""What becomes of a line: its translation, and how it is put together from those of its parts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nmt_core.search.alignment import Alignment, joined

Status = Literal["ok", "empty", "split", "cut", "unfinished", "prefix_unknown"]


@dataclass(frozen=True)
class Alternative:
    """Another translation of a line."""

    text: str
    score: float
    alignment: Alignment | None = None
    """As of a translation."""

    def aligned_by_words(self, source: str) -> "Alternative":
        """The same with links between words; `source` is the line."""
        return replace(self, alignment=self.alignment and self.alignment.of_words(source, self.text))


@dataclass(frozen=True)
class Translation:
    """What became of one line."""

    text: str
    """One line, without a line break; empty if there was nothing to translate."""
    score: float
    """Log-probability in nats over the length penalty; 0 if there was nothing to translate. Of a line that was split,
    the mean over its sentences, weighted by their tokens. NaN if there are no scores (`Translator.load`)."""
    status: Status
    """ok; empty: the line holds no text; split: it was longer than `max_source_tokens`, and its sentences were
    translated one by one; cut: it was longer, and its end was left out (`search.long_lines` chooses); unfinished: the
    translation, or that of a sentence, reached its greatest length before its end; prefix_unknown: the tokenizer has no
    pieces for what the translation had to begin with, so that it begins as it likes."""
    tokens: int = 0
    """Tokens of the translation, the end mark not counted."""
    alternatives: tuple[Alternative, ...] = ()
    """The others of `search.n_best` translations, best first, or samples in the order of their numbers. There may be
    fewer: a beam cannot find more than there are, and a line that was split has none."""
    alignment: Alignment | None = None
    """Links between the words of the line and those of the translation, or between pieces (`search.alignments`); None:
    they were not asked for."""

    def without_prefix(self) -> "Translation":
        """The same, if there is anything at all, of a line whose prefix cannot be spelt."""
        return self if self.status == "empty" else replace(self, status="prefix_unknown")

    def aligned_by_words(self, source: str) -> "Translation":
        """The same with links between words, from links between pieces; `source` is the line."""
        return replace(
            self,
            alignment=self.alignment and self.alignment.of_words(source, self.text),
            alternatives=tuple(other.aligned_by_words(source) for other in self.alternatives),
        )


def whole(pieces: Sequence[Translation], how: Literal["split", "cut"] | None, joiner: str) -> Translation:
    """The translation of a line from those of its pieces; `how` it was made shorter, if it was too long."""
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
