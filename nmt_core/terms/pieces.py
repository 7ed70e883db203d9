"""Find the pieces of a vocabulary that spell a term, at the beginning of a word and behind a mark such as a quote.

Letters: see `nmt_core.models`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt_core.terms.borders import class_of
from nmt_core.terms.glossary import Term, with_capital
from nmt_core.tokenizer.tokenizer import EOS_ID, SPACE_MARK, UNK_ID, WRITTEN_MARK, Tokenizer

Classes = npt.NDArray[np.int8]
_CLASSES = {"": 0, "mark": 1, "word": 1, "hangul": 2, "unspaced": 0}
"""Numbers of the classes of `borders.class_of`. Two neighbours of the same class, except 0, are in one word."""
_WORD = _CLASSES["word"]
_CACHED = 65_536


class Form(NamedTuple):
    """A way to write a term in pieces."""

    ids: tuple[int, ...]
    begin: int
    """Class that the end of the piece before may not have. 0 means that any piece may come before."""
    end: int
    """Class that the beginning of the piece behind may not have. 0 means that any piece may come behind."""


class TermPieces:
    """Pieces of the terms of a target vocabulary. Threads may share it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        pieces = [tokenizer.piece(index) for index in range(tokenizer.vocab_size)]
        is_letter = [index > EOS_ID and not tokenizer.is_byte(index) for index in range(len(pieces))]
        ends = [
            (_number_of(piece[0]), _number_of(piece[-1])) if is_plain else (_WORD, _WORD) if index > EOS_ID else (0, 0)
            for index, (piece, is_plain) in enumerate(zip(pieces, is_letter, strict=True))
        ]
        self.begin_V: Classes = np.array([begin for begin, _ in ends], dtype=np.int8)
        """Class of the beginning of each piece. A space or the end of the sentence has none."""
        self.end_V: Classes = np.array([end for _, end in ends], dtype=np.int8)
        """Class of the end of each piece."""
        self.forms = lru_cache(maxsize=_CACHED)(self._forms)
        """Function that returns the ways to write one of these texts. It returns none if it cannot be spelled."""

    def _forms(self, texts: tuple[str, ...]) -> tuple[Form, ...]:
        written = list(dict.fromkeys([*texts, *map(with_capital, texts)]))
        forms: dict[Form, None] = {}
        for text, ids in zip(written, self._tokenizer.encode(written), strict=True):
            end = _number_of(text[-1:]) if _number_of(text[-1:]) == _WORD else 0
            if ids and UNK_ID not in ids:
                begin = 0 if self._begins_with_space(ids) else _number_of(text[:1])
                forms[Form(tuple(ids), begin, end)] = None
            if inside := self._within_a_line(text):
                forms[Form(inside, _number_of(text[:1]), end)] = None
        return tuple(forms)

    def _begins_with_space(self, ids: Sequence[int]) -> bool:
        return self._tokenizer.piece(ids[0]).startswith(SPACE_MARK)

    def _within_a_line(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text behind a mark without a space, or none if the tokenizer cannot tell them.

        No piece contains the mark, so that the rest is spelled as behind any mark.
        """
        if self._tokenizer.pretokenizer:
            return ()
        [ids], [mark] = self._tokenizer.encode([WRITTEN_MARK + text]), self._tokenizer.encode([WRITTEN_MARK])
        inside = tuple(ids[len(mark) :])
        is_right = list(ids[: len(mark)]) == list(mark) and inside and UNK_ID not in inside
        return inside if is_right and self._tokenizer.decode([inside]) == [text] else ()


def faults_of(terms: Sequence[Term], pieces: TermPieces, source: Tokenizer, most: int) -> list[str]:
    """Return a line about each term that no translation can have.

    Args:
        terms: the terms.
        pieces: pieces of the target vocabulary.
        source: tokenizer of the source.
        most: most tokens of a line.
    """
    faults = []
    for term, ids in zip(terms, source.encode([term.source for term in terms]), strict=True):
        forms = pieces.forms(term.targets or (term.source,))
        longest = max([len(ids), *(min(len(form.ids) for form in forms) for _ in forms[:1])])
        if not forms and (term.targets or UNK_ID not in ids):  # what the source cannot spell either is copied
            what = "the translation" if term.targets else "it"
            faults.append(f"{term.title!r}: the model's vocabulary cannot write {what}: use other characters")
        elif longest > most:
            faults.append(f"{term.title!r}: has {longest:,} tokens, and the model reads {most:,}: use a shorter term")
    return faults


def _number_of(character: str) -> int:
    return 0 if character in ("", SPACE_MARK) else _CLASSES[class_of(character)]
