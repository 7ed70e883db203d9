"""Compute Korean forms for the toy grammar by Hangul arithmetic: particles, predicates and the copula.

A composed syllable is 0xAC00 + (initial * 21 + vowel) * 28 + final, so particles and endings follow from numbers. A
predicate is a stem and, where needed, the name of its irregular class (`듣:ㄷ` in the tables).
"""

from dataclasses import dataclass
from typing import Literal

Tense = Literal["present", "past", "future", "can"]

_BASE = 0xAC00
_A, _AE, _YA, _EO, _YEO, _O, _WA, _WAE, _OE, _U, _WEO, _EU, _I = 0, 1, 2, 4, 6, 8, 9, 10, 11, 13, 14, 18, 20
_NIEUN, _RIEUL, _SSANGSIOT = 4, 8, 20
# Vowel that results when a stem-final vowel merges with the 아/어 of the past tense. Other vowels do not merge.
_MERGED = {_A: _A, _AE: _AE, _EO: _EO, 5: 5, _YEO: _YEO, _O: _WA, _U: _WEO, _OE: _WAE, _I: _YEO}


def is_syllable(char: str) -> bool:
    """Return True if `char` is one of the 11,172 composed Hangul syllables."""
    return _BASE <= ord(char) < _BASE + 11172


def _split(char: str) -> tuple[int, int, int]:
    """Return the indices (initial, vowel, final) of one Hangul syllable. Final 0 means an open syllable."""
    rest, final = divmod(ord(char) - _BASE, 28)
    return *divmod(rest, 21), final


def _last(text: str, vowel: int | None = None, final: int | None = None) -> str:
    """Return `text` with the vowel and/or final consonant of its last syllable replaced."""
    initial, old_vowel, old_final = _split(text[-1])
    vowel = old_vowel if vowel is None else vowel
    final = old_final if final is None else final
    return text[:-1] + chr(_BASE + (initial * 21 + vowel) * 28 + final)


def final_consonant(text: str) -> int:
    """Return the index, 0 to 27, of the final consonant of the last syllable of `text`. 0 means an open syllable.

    Raises:
        ValueError: `text` does not end in a Hangul syllable.
    """
    if not text or not is_syllable(text[-1]):
        raise ValueError(f"{text!r} does not end in a Hangul syllable; give a Korean word without punctuation")
    return _split(text[-1])[2]


def particle(word: str, after_consonant: str, after_vowel: str) -> str:
    """Return `word` with the particle shape that its last syllable requires."""
    return word + (after_consonant if final_consonant(word) else after_vowel)


def topic(word: str) -> str:
    """Return `word` with 은/는."""
    return particle(word, "은", "는")


def subject(word: str) -> str:
    """Return `word` with 이/가, or the special shapes 내가 and 네가."""
    return {"나": "내가", "너": "네가"}.get(word) or particle(word, "이", "가")


def objective(word: str) -> str:
    """Return `word` with 을/를."""
    return particle(word, "을", "를")


def conjunctive(word: str) -> str:
    """Return `word` with 과/와 ('and', 'with')."""
    return particle(word, "과", "와")


def directional(word: str) -> str:
    """Return `word` with 으로/로 ('back to'). ㄹ counts as a vowel here."""
    return word + ("로" if final_consonant(word) in (0, _RIEUL) else "으로")


@dataclass(frozen=True)
class Predicate:
    """A Korean verb or adjective: its stem, its irregular class ('' if regular), and a flag for verbs."""

    stem: str
    irregular: str = ""
    is_verb: bool = True

    @property
    def present(self) -> str:
        """Plain present: 읽는다, 간다, 만든다, and of an adjective 크다."""
        if not self.is_verb:
            return self.stem + "다"
        final = final_consonant(self.stem)
        return self.stem + "는다" if final not in (0, _RIEUL) else _last(self.stem, final=_NIEUN) + "다"

    @property
    def past(self) -> str:
        """Past stem, to which 다 or 는가 is added: 읽었, 갔, 도왔, 빨랐."""
        stem, before = self.stem, self.stem[-2:-1]
        _, vowel, final = _split(stem[-1])
        if stem == "아니":
            return "아니었"
        if self.irregular == "르":
            return _last(stem[:-1], final=_RIEUL) + ("랐" if _split(before)[1] in (_A, _O) else "렀")
        if self.irregular == "ㅎ":
            return _last(stem, vowel + 1, _SSANGSIOT)
        if self.irregular == "ㅂ":
            return _last(stem, final=0) + ("왔" if stem == "돕" else "웠")
        if final or self.irregular:
            ending = "았" if vowel in (_A, _YA, _O) else "었"
            return self._softened() + ending
        if stem[-1] == "하":
            return stem[:-1] + "했"
        if vowel == _EU:
            bright = bool(before) and is_syllable(before) and _split(before)[1] in (_A, _O)
            return _last(stem, _A if bright else _EO, _SSANGSIOT)
        return _last(stem, _MERGED[vowel], _SSANGSIOT) if vowel in _MERGED else stem + "었"

    @property
    def adnominal(self) -> str:
        """Present form before a noun: 읽는, 가는, 만드는, and of an adjective 큰, 어려운, 맛있는."""
        if self.is_verb:
            return (_last(self.stem, final=0) if final_consonant(self.stem) == _RIEUL else self.stem) + "는"
        return self.stem + "는" if self.stem[-1] in "있없" else self._joined(_NIEUN, "은")

    @property
    def past_adnominal(self) -> str:
        """Past form of a verb before a noun: 읽은, 간, 만든, 도운."""
        return self._joined(_NIEUN, "은")

    @property
    def future_adnominal(self) -> str:
        """Future form before a noun, also before 것이다 and 수 있다: 읽을, 갈, 만들, 도울."""
        return self._joined(_RIEUL, "을")

    def _softened(self) -> str:
        """Return the stem before a vowel for the ㄷ and ㅅ classes: 듣 -> 들, 짓 -> 지."""
        return _last(self.stem, final={"ㄷ": _RIEUL, "ㅅ": 0}.get(self.irregular))

    def _joined(self, final: int, ending: str) -> str:
        """Return the stem with `final` under an open last syllable, or else with the full `ending` (ㄴ/은, ㄹ/을)."""
        if self.irregular == "ㅂ":
            return _last(_last(self.stem, final=0) + "우", final=final)
        if self.irregular == "ㅎ" or final_consonant(self.stem) in (0, _RIEUL):
            return _last(self.stem, final=final)
        return self._softened() + ending

    def finish(self, tense: Tense, negative: bool = False, question: bool = False) -> str:
        """Return the sentence-final form in plain style, without the mark: 읽는다, 읽지 않았다, 읽을 것인가."""
        if tense == "can":
            able = Predicate("없" if negative else "있", is_verb=False)
            return f"{self.future_adnominal} 수 {able.finish('present', question=question)}"
        if negative and self.stem == "알":  # the opposite of 알다 is a separate word
            return Predicate("모르", "르").finish(tense, question=question)
        if negative:
            return f"{self.stem}지 {Predicate('않', is_verb=self.is_verb).finish(tense, question=question)}"
        if tense == "future":
            return self.future_adnominal + (" 것인가" if question else " 것이다")
        if tense == "past":
            return self.past + ("는가" if question else "다")
        return self.adnominal + "가" if question else self.present


def copula(noun: str, tense: Tense, negative: bool = False, question: bool = False) -> str:
    """Return 'to be `noun`' in plain style: 학생이다, 의사다, 학생이 아니다, 의사였는가, 학생이 될 것이다."""
    if tense == "future":
        return f"{subject(noun)} {Predicate('되').finish('future', negative, question)}"
    if negative:
        return f"{subject(noun)} {Predicate('아니', is_verb=False).finish(tense, question=question)}"
    if tense == "past":
        return particle(noun, "이었", "였") + ("는가" if question else "다")
    return noun + "인가" if question else particle(noun, "이다", "다")
