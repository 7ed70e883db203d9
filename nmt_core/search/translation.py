"""Translations of lines, and their assembly from the translations of parts."""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from nmt_core.search.alignment import Alignment, joined
from nmt_core.tokenizer.tokenizer import SPACE_MARK

Status = Literal[
    "ok",
    "empty",
    "split",
    "cut",
    "unfinished",
    "prefix_unknown",
    "unknown",
    "partly_unknown",
    "no_language",
    "partly_no_language",
    "terms_missing",
]
WHOLE: frozenset[Status] = frozenset({"ok", "split", "partly_unknown", "partly_no_language"})
"""Statuses of a translation of the whole line, in which nothing is known to be wrong."""


@dataclass(frozen=True)
class Alternative:
    """Another translation of a line."""

    text: str
    score: float
    alignment: Alignment | None = None
    """Links to the line, as in `Translation.alignment`."""
    tokens: int = 0
    """Number of its tokens, without the end mark."""

    def record(self) -> dict[str, Any]:
        """Return text, score and alignment, see `Translation.record`."""
        record = {"text": self.text, "score": None if math.isnan(self.score) else self.score}
        return record if self.alignment is None else record | {"alignment": self.alignment.pharaoh}

    def aligned_by_words(self, source: str) -> "Alternative":
        """Return the same with links between words. `source` is the line."""
        return replace(self, alignment=self.alignment and self.alignment.of_words(source, self.text))


@dataclass(frozen=True)
class Translation:
    """Translation of one line."""

    text: str
    """Text of the translation. Empty if there was nothing to translate. It has the line breaks of the line if it was
    translated sentence by sentence (`search.split_sentences`), and otherwise none."""
    score: float
    """Log-probability in nats over the length penalty. For a line of several sentences, the mean over its sentences,
    weighted by their tokens. NaN if there was nothing to translate, or if there are no scores (`Translator.load`)."""
    status: Status
    """Outcome of the translation. `ok`: the whole line was translated. `empty`: the line has no text. `split`: the line
    or a sentence of it was longer than `max_source_tokens`, and was translated in parts. `cut`: the line was longer,
    and its end was left out (`search.long_lines` chooses). `unfinished`: the translation, or the translation of a
    sentence, reached its greatest length before its end. `prefix_unknown`: the tokenizer has no pieces for the
    requested beginning of the translation, so the beginning is free. `unknown`: the vocabulary can spell nothing of the
    line but marks and digits. `partly_unknown`: it cannot spell a part of the line. `search.copy_unknown` chooses
    whether such text is copied. `no_language`: the line is a run of more than 500 characters without a space, such as
    base64, and is copied. `partly_no_language`: such a run is copied, and the rest of the line is translated.
    `terms_missing`: a term of the glossary is in the line, and its translation is not in
    the translation."""
    tokens: int = 0
    """Number of tokens of the translation, without the end mark."""
    alternatives: tuple[Alternative, ...] = ()
    """Other translations of `search.n_best`, best first, or samples in the order of their numbers, or in the order of
    `search.rerank`. There may be fewer, because a beam cannot find more than there are. For a line of several sentences
    they are combinations of the translations of its sentences."""
    alignment: Alignment | None = None
    """Links between the words of the line and the words of the translation, or between pieces (`search.alignments`).
    None means that they were not requested."""
    terms: int = 0
    """Number of places of the line at which there is a term of the glossary."""
    terms_kept: int = 0
    """Number of these whose translation is in the translation."""
    judge_problem: str = ""
    """Reason why the judge of `search.judge` did not choose among the candidates of the line, which then keeps the
    first one of the search. Empty means that it chose, that there was no choice, or that there is no judge."""

    def record(self) -> dict[str, Any]:
        """Return the translation as JSON holds it: text, score, status and tokens.

        It also has n_best, the best first, if there are other translations, alignment, in the Pharaoh format, if there
        is one, and terms and terms_kept if the line has terms. A score that is not known is None.
        """
        records = [choice.record() for choice in self.choices]
        line = records[0] | {"status": self.status, "tokens": self.tokens}
        line |= {"terms": self.terms, "terms_kept": self.terms_kept} if self.terms else {}
        return line | {"n_best": records} if self.alternatives else line

    def without_prefix(self) -> "Translation":
        """Return the same with the status `prefix_unknown`, unless there was nothing to translate.

        It is for a line whose prefix the tokenizer cannot spell.
        """
        return self if self.status == "empty" else replace(self, status="prefix_unknown")

    def with_terms(self, terms: int, kept: int) -> "Translation":
        """Return the same with these numbers of terms, and with the status `terms_missing` if not all are kept."""
        status: Status = "terms_missing" if kept < terms and self.status in WHOLE else self.status
        return replace(self, status=status, terms=terms, terms_kept=kept)

    def with_first(self, number: int, n_best: int) -> "Translation":
        """Return the translation with one of its `choices` as the first one, of `n_best` in all."""
        others = [place for place in range(len(self.choices)) if place != number]
        return self.in_order([number, *others][:n_best])

    def in_order(self, numbers: Sequence[int]) -> "Translation":
        """Return the translation with these of its `choices`, the first one as the translation itself."""
        choices = self.choices
        first, *others = [choices[number] for number in numbers]
        return replace(
            self,
            text=first.text,
            score=first.score,
            tokens=first.tokens,
            alignment=first.alignment,
            alternatives=tuple(others),
        )

    def aligned_by_words(self, source: str) -> "Translation":
        """Return the same with links between words, from links between pieces. `source` is the line."""
        return replace(
            self,
            alignment=self.alignment and self.alignment.of_words(source, self.text),
            alternatives=tuple(other.aligned_by_words(source) for other in self.alternatives),
        )

    @property
    def choices(self) -> list[Alternative]:
        """The translation and its alternatives, best first."""
        return [Alternative(self.text, self.score, self.alignment, self.tokens), *self.alternatives]


EMPTY = Translation("", math.nan, "empty")
"""Translation of a line without text."""

Part = Translation | str
"""Part of a line: a translation, or text that is copied as it is."""


def whole(
    sentences: Sequence[Sequence[Part]], joiner: str, status: Status = "ok", n_best: int = 1, *, samples: bool = False
) -> Translation:
    """Return the translation of a line from its sentences, in order.

    Args:
        sentences: parts of each sentence. White space between two sentences counts as one.
        joiner: text between two sentences, and between two translations without copied text between them.
        status: status of the line, if the status of no part is more important.
        n_best: number of translations of the line.
        samples: True if the nth translation is made of the nth translations of the parts, as for samples and for
            reranked candidates. Otherwise the combinations of the highest score are made.
    """
    parts = [part for sentence in sentences for part in sentence]
    translations = [part for part in parts if isinstance(part, Translation)]
    if not any(isinstance(part, Translation) or part.strip() for part in parts):
        return EMPTY
    if len(parts) == len(translations) == 1:
        return replace(translations[0], status=_status(translations, status))
    choices = [part.choices for part in translations]
    picks = list(_together(choices) if samples else _best(choices, n_best))
    assembled = [_assembled(sentences, pick, joiner) for pick in picks]
    first, others = assembled[0], assembled[1:n_best]
    if not samples:
        others.sort(key=lambda other: -other.score)
    return Translation(
        first.text, first.score, _status(translations, status), first.tokens, tuple(others), first.alignment
    )


def _status(translations: Sequence[Translation], status: Status) -> Status:
    if status in ("cut", "unknown", "no_language"):
        return status
    return "unfinished" if any(one.status == "unfinished" for one in translations) else status


def _together(choices: Sequence[Sequence[Alternative]]) -> Iterator[list[Alternative]]:
    """Yield the nth choices of all parts."""
    most = max(map(len, choices), default=1)
    for number in range(most):
        yield [own[min(number, len(own) - 1)] for own in choices]


def _best(choices: Sequence[Sequence[Alternative]], most: int) -> Iterator[list[Alternative]]:
    """Yield the combinations that lose least against the best choices, which come first."""

    def loss(part: int, number: int) -> float:
        own = choices[part]
        return (own[0].score - own[number].score) * max(own[0].tokens, 1)

    # Each of the best combinations changes none but the parts that lose least: a line may have 200,000 sentences.
    several = (part for part, own in enumerate(choices) if len(own) > 1)
    parts = sorted(heapq.nsmallest(most - 1, several, key=lambda part: (loss(part, 1), -part)))
    ahead: list[tuple[float, tuple[int, ...]]] = [(0.0, (0,) * len(parts))]
    seen = {ahead[0][1]}
    while ahead and most:
        lost, numbers = heapq.heappop(ahead)
        picks = [own[0] for own in choices]
        for part, number in zip(parts, numbers, strict=True):
            picks[part] = choices[part][number]
        yield picks
        most -= 1
        for place, (part, number) in enumerate(zip(parts, numbers, strict=True)) if most else ():
            following = (*numbers[:place], number + 1, *numbers[place + 1 :])
            if number + 1 < len(choices[part]) and following not in seen:
                seen.add(following)
                heapq.heappush(ahead, (lost - loss(part, number) + loss(part, number + 1), following))


def _assembled(sentences: Sequence[Sequence[Part]], picked: Sequence[Alternative], joiner: str) -> Alternative:
    left = iter(picked)
    filled = [[part if isinstance(part, str) else next(left) for part in sentence] for sentence in sentences]
    tokens = sum(one.tokens for one in picked)
    score = sum(one.score * one.tokens for one in picked) / max(tokens, 1) if picked else math.nan
    alignment = None
    if any(one.alignment for one in picked):
        every = [one for sentence in filled for one in sentence]
        alignment = joined(_copied(one) if isinstance(one, str) else one.alignment or Alignment() for one in every)
    return Alternative(_joined_text([_text(sentence, joiner) for sentence in filled], joiner), score, alignment, tokens)


def _text(filled: Sequence[Alternative | str], joiner: str) -> str:
    """Return the text of a sentence. Copied text brings its own spaces."""
    text, is_open = "", False
    for one in filled:
        own = one if isinstance(one, str) else one.text
        if own:
            text += joiner * (is_open and not isinstance(one, str)) + own
            is_open = not isinstance(one, str)
    return text


def _joined_text(sentences: Sequence[str], joiner: str) -> str:
    """Return the text of sentences, with the joiner between two that have no white space between them."""
    text, is_open = "", False
    for sentence in filter(None, sentences):
        text += joiner * (is_open and not sentence.isspace()) + sentence
        is_open = not sentence.isspace()
    return text


def _copied(text: str) -> Alignment:
    """Return the alignment of copied text with itself, word by word."""
    words = text.split()
    pieces = tuple(
        word if not number and not text[0].isspace() else SPACE_MARK + word for number, word in enumerate(words)
    )
    return Alignment(tuple((number, number) for number in range(len(pieces))), pieces, pieces)
