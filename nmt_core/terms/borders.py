"""Find word borders by script.

A term in a script with spaces between words is found as whole words. In scripts without spaces, such as Han, Kana or
Thai, it is found anywhere. In Hangul it begins a word, and particles may follow.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Literal

from nmt_core.text.unspaced import UNSPACED

_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff]")

Class = Literal["", "mark", "unspaced", "hangul", "word"]


@lru_cache(maxsize=65_536)
def class_of(character: str) -> Class:
    """Return how a character takes part in words. Empty for spaces, punctuation and symbols, and for no character."""
    if not character:
        return ""
    category = unicodedata.category(character)[0]
    if category == "M":
        return "mark"
    if category not in "LN" and character != "_":
        return ""
    if UNSPACED.match(character):
        return "unspaced"
    return "hangul" if _HANGUL.match(character) else "word"


def begins_word(before: str, first: str) -> bool:
    """Return True if a word may begin between two characters. `before` is empty at the beginning of a text."""
    own = class_of(first)
    return own not in ("word", "hangul") or class_of(before) not in (own, "mark")


def ends_word(last: str, after: str) -> bool:
    """Return True if a word may end between two characters. `after` is empty at the end of a text."""
    following = class_of(after)
    return following != "mark" and not (following == "word" == class_of(last))
