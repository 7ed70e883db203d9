"""Change the case of both sides, or remove the diacritics of the source."""

import re
import unicodedata

from nmt_core.augmentation.draw import Draw, Pair, language_of, outside_of_kept

_DOTTED = {"tr", "az", "tt", "crh", "kk", "gag"}
"""Languages whose Latin alphabet has i with and without a dot as two letters."""
_OWN_CAPITALS = str.maketrans({"i": "İ", "ı": "I"})
_OWN_SMALL = str.maketrans({"İ": "i", "I": "ı"})
_WORD = re.compile(r"[^\W\d_][\w'’]*")
_STROKES = str.maketrans("đĐłŁøØħĦŧŦ", "dDlLoOhHtT")
_SIMPLE = ("LATIN", "GREEK")
"""Scripts whose letters are often typed without their diacritics. In others the same marks make other letters."""
_ACUTE = "\u0301"


def upper_case(pair: Pair, draw: Draw) -> Pair:
    """Write both sides in capitals."""
    source, target = (in_capitals(text, code) for text, code in zip(pair, draw.languages, strict=True))
    return source, target


def in_capitals(text: str, language: str) -> str:
    """Return a text in the capitals of a language. Addresses, tags and placeholders stay.

    Args:
        text: any text.
        language: ISO 639 code, perhaps with a script or a region.
    """
    return outside_of_kept(text, lambda part: _upper(part, language))


def title_case(pair: Pair, draw: Draw) -> Pair:
    """Begin each word of both sides with a capital."""
    source, target = (
        outside_of_kept(text, lambda part, code=code: _WORD.sub(lambda word: _title(word[0], code), part))  # type: ignore[misc]
        for text, code in zip(pair, draw.languages, strict=True)
    )
    return source, target


def lower_case(pair: Pair, draw: Draw) -> Pair:
    """Write the source in small letters. The target stays as it is written."""
    source, target = pair
    return outside_of_kept(source, lambda part: _lower(part, draw.languages[0])), target


def no_diacritics(pair: Pair, draw: Draw) -> Pair:
    """Remove the diacritics of Latin and Greek letters in the source, and the strokes of ł, đ and ø."""
    source, target = pair
    return outside_of_kept(source, _plain), target


def _upper(text: str, code: str) -> str:
    language = language_of(code)
    if language in _DOTTED:
        text = text.translate(_OWN_CAPITALS)
    if language == "el":  # capitals have no accents, but a diaeresis stays
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).replace(_ACUTE, ""))
    return text.upper()


def _lower(text: str, code: str) -> str:
    return (text.translate(_OWN_SMALL) if language_of(code) in _DOTTED else text).lower()


def _title(word: str, code: str) -> str:
    first = word[0].translate(_OWN_CAPITALS) if language_of(code) in _DOTTED else word[0]
    capital = first.upper()
    return (capital if len(capital) == 1 else capital.capitalize()) + word[1:]


def _plain(text: str) -> str:
    letters = []
    for letter in unicodedata.normalize("NFC", text):
        parts = unicodedata.normalize("NFD", letter)
        is_simple = unicodedata.name(parts[0], "").startswith(_SIMPLE)
        letters.append(parts[0] if is_simple and all(map(unicodedata.combining, parts[1:])) else letter)
    return "".join(letters).translate(_STROKES)
