"""Find the parts of a text that a vocabulary cannot spell, and put them into a translation. Imports no torch.

A model that was trained with <unk> in its text translates around it, and puts <unk> into the translation. Its place
gets the text of the source. A model that never saw <unk> invents a sentence. Such a line is cut at what is unknown: the
text between is translated in parts, and what is unknown is copied. Marks within a sentence, such as quotes of another
kind, are left out instead: parts of a sentence translate worse than a sentence without its quotes.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from nmt_core.tokenizer.tokenizer import Tokenizer

_SURFACE = re.compile(" ?\u2047 ?")
"""<unk> in decoded text."""
_WHOLE = re.compile(r"://|www\.|@|[%{}<>$\\]")
"""Part of a word that is an address, a placeholder or a tag. It is copied as a whole."""
_WORD = re.compile(r"\S+")

Span = tuple[int, int]


class UnknownText:
    """Finder of the text that a vocabulary cannot spell. Threads may share it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._is_unknown: dict[str, bool] = {}

    def spans(self, text: str) -> list[Span]:
        """Return the places of unknown characters, in runs, or the whole word if it is an address or a placeholder."""
        self._look_up(set(text))
        unknown: list[Span] = []
        for word in _WORD.finditer(text):
            runs = [(word.start() + start, word.start() + end) for start, end in self._runs(word[0])]
            if runs and _WHOLE.search(word[0]):
                runs = [word.span()]
            unknown += runs
        return unknown

    def _look_up(self, characters: set[str]) -> None:
        new = sorted(characters - self._is_unknown.keys())
        if new:
            self._is_unknown.update(zip(new, self._tokenizer.has_unknown(new), strict=True))

    def _runs(self, word: str) -> Iterator[Span]:
        start = None
        for place, character in enumerate(word):
            if self._is_unknown[character]:
                start = place if start is None else start
            elif start is not None:
                yield start, place
                start = None
        if start is not None:
            yield start, len(word)


def filled(text: str, copies: Sequence[str]) -> str | None:
    """Return a decoded text with these copies in the places of <unk>, or None if it has not as many."""
    around = _SURFACE.split(text)
    if len(around) != len(copies) + 1:
        return None
    return around[0] + "".join(copy + after for copy, after in zip(copies, around[1:], strict=True))


def cut_at(text: str, spans: Sequence[Span]) -> list[tuple[str, str]]:
    """Return the texts between the spans, each with the text behind it that is copied.

    White space around a span, and marks and digits between two spans, are copied with it. The first text may be empty.
    """
    parts = [("", "")]
    ends = [*spans, (len(text), len(text))]
    start = 0
    for first, end in ends:
        between = text[start:first]
        words = between.strip()
        if any(map(str.isalpha, words)):
            leading = between[: len(between) - len(between.lstrip())]
            trailing = between[len(between.rstrip()) :]
            parts[-1] = (parts[-1][0], parts[-1][1] + leading)
            parts.append((words, trailing + text[first:end]))
        else:
            parts[-1] = (parts[-1][0], parts[-1][1] + between + text[first:end])
        start = end
    return parts if parts[0][1] or parts[0][0] else parts[1:]


def without_marks(text: str, spans: Sequence[Span]) -> tuple[str, list[Span]]:
    """Return the text without unknown punctuation that has words on both sides, and the places of the other
    spans."""
    kept, shorter, start = list[Span](), "", 0
    for first, end in spans:
        shorter += text[start:first]
        is_mark = all(unicodedata.category(character).startswith("P") for character in text[first:end])
        if not (is_mark and any(map(str.isalpha, text[:first])) and any(map(str.isalpha, text[end:]))):
            kept.append((len(shorter), len(shorter) + end - first))
            shorter += text[first:end]
        start = end
    return shorter + text[start:], kept
