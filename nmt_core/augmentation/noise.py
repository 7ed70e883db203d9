"""Put errors into the source of a pair, as typing and text recognition make them. The target stays as it is."""

from collections.abc import Callable

from nmt_core.augmentation.draw import Draw, Pair, free_places
from nmt_core.augmentation.typing_errors import with_typing_errors

_MISTYPED = 0.2
"""Usual share of the words with a typing error."""
_MISREAD = 0.04
"""Usual share of the letters that are misread, among those that are easily misread."""
_MARKS = 0.5
"""Usual share of the punctuation marks that are missing or doubled."""
_SPACES = 0.1
"""Usual share of the spaces that are missing or at a wrong place."""

_MARKED = ".,;:!?…。，、；：！？؟،؛।"
_ALIKE = {
    "l": "1I",
    "I": "l1",
    "1": "lI",
    "O": "0",
    "o": "0",
    "0": "O",
    "S": "5",
    "5": "S",
    "B": "8",
    "8": "B",
    "m": ("rn",),
    "w": ("vv",),
    "d": ("cl",),
    "h": "b",
    "b": "h",
    "e": "c",
    "c": "e",
    "n": "u",
    "u": "n",
    "i": "l",
    "t": "f",
    "f": "t",
    "ä": "a",
    "ö": "o",
    "ü": "u",
    "é": "e",
    "и": "н",
    "н": "и",
    "ш": "щ",
    "щ": "ш",
    "з": "э",
    "ь": "ъ",
}
"""Characters that text recognition reads in place of another one."""


def typos(pair: Pair, draw: Draw) -> Pair:
    """Put typing errors into words (`typing_errors`)."""
    source, target = pair
    return with_typing_errors(source, draw.languages[0], min(1.0, _MISTYPED * draw.strength), draw.random), target


def ocr(pair: Pair, draw: Draw) -> Pair:
    """Read characters as others that look like them, such as `rn` for `m`."""
    source, target = pair
    places = free_places(source, lambda place: source[place] in _ALIKE)

    def misread(text: str, place: int, draw: Draw) -> str:
        return text[:place] + draw.random.choice(_ALIKE[text[place]]) + text[place + 1 :]

    return _changed_at(source, places, draw, _MISREAD, misread), target


def punctuation(pair: Pair, draw: Draw) -> Pair:
    """Leave out or double punctuation marks, though never one inside a number or a word."""
    source, target = pair

    def is_mark(place: int) -> bool:
        behind = source[place + 1 : place + 2]
        return source[place] in _MARKED and place > 0 and not behind.isalnum()

    return _changed_at(source, free_places(source, is_mark), draw, _MARKS, _left_out_or_doubled).strip(), target


def spaces(pair: Pair, draw: Draw) -> Pair:
    """Leave out spaces between words, or type them a letter too early or too late.

    Doubled spaces are no change: text is read without them, in training and in translation.
    """
    source, target = pair

    free = {*free_places(source, lambda place: source[place].isalpha())}

    def is_between_words(place: int) -> bool:
        return source[place] == " " and {place - 1, place + 1} <= free

    return _changed_at(source, free_places(source, is_between_words), draw, _SPACES, _misplaced), target


def _changed_at(text: str, places: list[int], draw: Draw, share: float, change: Callable[[str, int, Draw], str]) -> str:
    """Change a random share of the places, from the last to the first, so that the earlier ones stay where they are."""
    if not places:
        return text
    for place in sorted(draw.random.sample(places, draw.times(len(places), share)), reverse=True):
        text = change(text, place, draw)
    return text


def _left_out_or_doubled(text: str, place: int, draw: Draw) -> str:
    return text[:place] + text[place] * draw.random.choice((0, 2)) + text[place + 1 :]


def _misplaced(text: str, place: int, draw: Draw) -> str:
    before, behind = text[:place], text[place + 1 :]
    match draw.random.choice(("missing", "early", "late")):
        case "early":
            return f"{before[:-1]} {before[-1]}{behind}"
        case "late":
            return f"{before}{behind[0]} {behind[1:]}"
        case _:
            return before + behind
