"""Put typing errors into text: neighbouring keys, swapped, missing and doubled letters (Belinkov and Bisk 2018).

The keyboards are QWERTY, QWERTZ and AZERTY for Latin letters, ЙЦУКЕН for Cyrillic ones, and the Korean two-set layout
for Hangul, where a wrong key gives another syllable. Other letters get errors without a wrong key. Scripts without
spaces between words get no errors, because their keyboards choose whole words.
"""

import functools
import random
import re
import unicodedata

from nmt_core.text.unspaced import LETTERS

_ROWS = {
    "qwerty": ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    "qwertz": ("qwertzuiopü", "asdfghjklöä", "yxcvbnm"),
    "azerty": ("azertyuiop", "qsdfghjklm", "wxcvbn"),
    "cyrillic": ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),
    "hangul": ("ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ"),
}
"""Letters of each keyboard, by rows from above. Each row begins further to the right."""
_LATIN = {
    "de": "qwertz",
    "cs": "qwertz",
    "hu": "qwertz",
    "sk": "qwertz",
    "sl": "qwertz",
    "hr": "qwertz",
    "fr": "azerty",
}
"""Latin keyboard by language, where it is not QWERTY."""
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


def with_typing_errors(text: str, language: str, rate: float, seed: int) -> str:
    """Return a text in which some words have one typing error each.

    Args:
        text: one line.
        language: ISO 639 code, which decides about the Latin keyboard.
        rate: share of the words of four letters or more, or of Hangul, that get an error. At least one does.
        seed: random seed. The errors depend only on this and on the text.
    """
    chance = random.Random(f"{seed}:{text}")
    neighbours = _neighbours(_LATIN.get(language, "qwerty"))
    places = []
    for token in re.finditer(r"\S+", text):
        if not _UNTOUCHED.search(token[0]):
            words = (match for match in _WORD.finditer(text, *token.span()) if _errors(match[0], neighbours))
            places += [match.span() for match in words]
    if not places:
        return text
    chosen = chance.sample(places, max(1, round(rate * len(places))))
    for start, end in sorted(chosen, reverse=True):
        kinds = _errors(text[start:end], neighbours)
        text = text[:start] + chance.choice(chance.choice(kinds)) + text[end:]
    return text


@functools.lru_cache(maxsize=4_096)
def _errors(word: str, neighbours: "_Neighbours") -> list[list[str]]:
    """Return the misspellings of a word by kind, without kinds that have none. The first letter stays.

    A word of fewer than four letters has none, except in Hangul, where a syllable holds several letters.
    """
    word = unicodedata.normalize("NFC", word)
    if all(ord(letter) in _HANGUL for letter in word):
        return [wrong] if (wrong := _wrong_syllables(word, neighbours)) else []
    if len(word) < _SHORTEST:
        return []
    later = range(1, len(word))
    kinds = [
        [word[:place] + key + word[place + 1 :] for place in later for key in neighbours.of(word[place])],
        [
            word[:place] + word[place + 1] + word[place] + word[place + 2 :]
            for place in later[:-1]
            if word[place] != word[place + 1]
        ],
        [word[:place] + word[place + 1 :] for place in later],
        [word[: place + 1] + word[place:] for place in later],
    ]
    return [kind for kind in kinds if kind]


def _wrong_syllables(word: str, neighbours: "_Neighbours") -> list[str]:
    """Return the words in which one consonant or vowel, before the last one of a syllable, is a neighbouring key."""
    found = []
    for place, syllable in enumerate(word):
        code = ord(syllable) - _HANGUL.start
        lead, vowel = _LEADS[code // _PER_LEAD], _VOWELS[code % _PER_LEAD // _PER_VOWEL]
        codes = [code + (_LEADS.index(key) - _LEADS.index(lead)) * _PER_LEAD for key in neighbours.of(lead, _LEADS)]
        codes += [
            code + (_VOWELS.index(key) - _VOWELS.index(vowel)) * _PER_VOWEL for key in neighbours.of(vowel, _VOWELS)
        ]
        found += [f"{word[:place]}{chr(_HANGUL.start + one)}{word[place + 1 :]}" for one in codes]
    return found


class _Neighbours:
    """Neighbouring keys of each letter on the keyboards of all scripts.

    Args:
        latin: name of the keyboard for Latin letters.
    """

    def __init__(self, latin: str) -> None:
        self._keys: dict[str, str] = {}
        for rows in (_ROWS[latin], _ROWS["cyrillic"], _ROWS["hangul"]):
            at = {
                letter: (column + _SHIFTS[row], row)
                for row, letters in enumerate(rows)
                for column, letter in enumerate(letters)
            }
            for letter, (x, y) in at.items():
                near = [other for other, (v, w) in at.items() if other != letter and abs(x - v) <= _REACH >= abs(y - w)]
                self._keys[letter] = "".join(near)

    def of(self, letter: str, among: str = "") -> str:
        """Return the neighbours of a letter, in its case. Empty means that it is on no keyboard.

        Args:
            letter: letter to replace.
            among: letters to which the result is limited. Empty means no limit.
        """
        keys = self._keys.get(letter.lower(), "")
        keys = "".join(key for key in keys if not among or key in among)
        return keys.upper() if letter.isupper() else keys


@functools.cache
def _neighbours(latin: str) -> _Neighbours:
    return _Neighbours(latin)
