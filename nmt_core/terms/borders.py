"""Find word borders by script.

A term in a script with spaces between words is found as whole words. In scripts without spaces, such as Han, Kana or
Thai, it is found anywhere. In Hangul it begins a word, and particles may follow.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Literal

# Radicals, Kana, Bopomofo, Han, Yi; Thai, Lao, Tibetan, Myanmar, Khmer, Tai scripts, Balinese and Javanese.
_UNSPACED = re.compile(
    "[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua000-\ua4cf\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9df"
    "\uaa60-\uaadf]"
)
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
    if _UNSPACED.match(character):
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
