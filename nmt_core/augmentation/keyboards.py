"""Know which keys lie beside each other on the usual keyboard of a language."""

from functools import cache

from nmt_core.augmentation.draw import language_of

_ROWS: dict[str, tuple[str, ...]] = {
    "qwerty": ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    "qwertz": ("qwertzuiopü", "asdfghjklöä", "yxcvbnm"),
    "azerty": ("azertyuiop", "qsdfghjklm", "wxcvbn"),
    "russian": ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),
    "ukrainian": ("йцукенгшщзхї", "фівапролджє", "ячсмитьбю"),
    "bulgarian": ("яверътуиопшщ", "асдфгхйкл", "зьцжбнм"),
    "greek": ("ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"),
    "hebrew": ("קראטוןםפ", "שדגכעיחלךף", "זסבהנמצתץ"),
    "arabic": ("ضصثقفغعهخحج", "شسيبلاتنمك", "ئءؤرىةوزظ"),
}
"""Rows of letters of each keyboard, the upper one first. Each row begins about half a key right of the one above."""
_KEYBOARDS = dict.fromkeys(("de", "hu", "cs", "sk", "sl", "hr", "sq"), "qwertz")
_KEYBOARDS |= {"fr": "azerty", "br": "azerty", "oc": "azerty", "ru": "russian", "be": "russian", "kk": "russian"}
_KEYBOARDS |= {"uk": "ukrainian", "bg": "bulgarian", "el": "greek", "he": "hebrew", "yi": "hebrew"}
_KEYBOARDS |= dict.fromkeys(("ar", "fa", "ur", "ckb"), "arabic")
"""Keyboard of each language. The others have `qwerty`, which says nothing about letters that are not on it."""


def neighbours_of(letter: str, language: str) -> str:
    """Return the letters on the keys around the one of a letter, in its case. Empty if the keyboard lacks the letter.

    Args:
        letter: one letter.
        language: ISO 639 code.
    """
    found = _neighbours(_KEYBOARDS.get(language_of(language), "qwerty")).get(letter.lower(), "")
    return found.upper() if letter.isupper() else found


@cache
def _neighbours(keyboard: str) -> dict[str, str]:
    places = {
        letter: (row, column + row / 2)
        for row, keys in enumerate(_ROWS[keyboard])
        for column, letter in enumerate(keys)
    }
    return {
        letter: "".join(
            other
            for other, (other_row, other_column) in places.items()
            if other != letter and abs(other_row - row) <= 1 and abs(other_column - column) <= 1
        )
        for letter, (row, column) in places.items()
    }
