"""Put typing errors into text: neighbouring keys, swapped, missing and doubled letters (Belinkov and Bisk 2018).

A wrong key is beside the right one on the usual keyboard of the language. In Hangul it gives another syllable. Letters
that the keyboard lacks get errors without a wrong key. Scripts without spaces between words get no errors, because
their keyboards choose whole words.
"""

import functools
import random
import re
import unicodedata

from nmt_core.augmentation.keyboards import neighbours_of
from nmt_core.text.unspaced import LETTERS

_HANGUL_ROWS = ("ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ")
"""Letters of the Korean two-set keyboard, the upper row first. Each row begins further to the right."""
_SHIFTS = (0.0, 0.25, 0.75)
"""Distance of each row's first key from the left, in keys."""
_REACH = 1.2
"""Greatest distance of neighbouring keys, in keys."""

_WORD = re.compile(rf"[^\W\d_{LETTERS}]+")
_UNTOUCHED = re.compile(r"[\d@/\\<>{}%$#&=_]|\w[.:]\w")
"""Characters of numbers, addresses, placeholders and tags, in which an error would change what has to be copied."""
_SHORTEST = 4
_HANGUL = range(0xAC00, 0xD7A4)
_LEADS, _VOWELS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ", "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_PER_LEAD, _PER_VOWEL = 588, 28
"""Syllables that begin with one consonant, and with one consonant and vowel, in the order of Unicode."""


def with_typing_errors(text: str, language: str, rate: float, chance: random.Random) -> str:
    """Return a text in which some words have one typing error each.

    Args:
        text: one line.
        language: ISO 639 code, which decides about the keyboard.
        rate: share of the words of four letters or more, or of Hangul, that get an error. At least one does.
        chance: random numbers.
    """
    places = []
    for token in re.finditer(r"\S+", text):
        if not _UNTOUCHED.search(token[0]):
            words = (match for match in _WORD.finditer(text, *token.span()) if _errors(match[0], language))
            places += [match.span() for match in words]
    if not places:
        return text
    chosen = chance.sample(places, min(len(places), max(1, round(rate * len(places)))))
    for start, end in sorted(chosen, reverse=True):
        kinds = _errors(text[start:end], language)
        text = text[:start] + chance.choice(chance.choice(kinds)) + text[end:]
    return text


@functools.lru_cache(maxsize=4_096)
def _errors(word: str, language: str) -> list[list[str]]:
    """Return the misspellings of a word by kind, without kinds that have none. The first letter stays.

    A word of fewer than four letters has none, except in Hangul, where a syllable holds several letters.
    """
    word = unicodedata.normalize("NFC", word)
    if all(ord(letter) in _HANGUL for letter in word):
        return [wrong] if (wrong := _wrong_syllables(word)) else []
    if len(word) < _SHORTEST:
        return []
    later = range(1, len(word))
    kinds = [
        [word[:place] + key + word[place + 1 :] for place in later for key in neighbours_of(word[place], language)],
        [
            word[:place] + word[place + 1] + word[place] + word[place + 2 :]
            for place in later[:-1]
            if word[place] != word[place + 1]
        ],
        [word[:place] + word[place + 1 :] for place in later],
        [word[: place + 1] + word[place:] for place in later],
    ]
    return [kind for kind in kinds if kind]


def _wrong_syllables(word: str) -> list[str]:
    """Return the words in which one consonant or vowel, before the last one of a syllable, is a neighbouring key."""
    found = []
    for place, syllable in enumerate(word):
        code = ord(syllable) - _HANGUL.start
        lead, vowel = _LEADS[code // _PER_LEAD], _VOWELS[code % _PER_LEAD // _PER_VOWEL]
        codes = [code + (_LEADS.index(key) - _LEADS.index(lead)) * _PER_LEAD for key in _beside(lead, _LEADS)]
        codes += [code + (_VOWELS.index(key) - _VOWELS.index(vowel)) * _PER_VOWEL for key in _beside(vowel, _VOWELS)]
        found += [f"{word[:place]}{chr(_HANGUL.start + one)}{word[place + 1 :]}" for one in codes]
    return found


@functools.cache
def _beside(letter: str, among: str) -> str:
    """Return the letters on the Korean keys around the one of a letter, as far as they are among others.

    A letter that needs two keys, or the shift key, has none.
    """
    places = {
        other: (column + _SHIFTS[row], row)
        for row, keys in enumerate(_HANGUL_ROWS)
        for column, other in enumerate(keys)
    }
    if letter not in places:
        return ""
    x, y = places[letter]
    near = (other for other, (v, w) in places.items() if other != letter and abs(x - v) <= _REACH >= abs(y - w))
    return "".join(other for other in near if other in among)
