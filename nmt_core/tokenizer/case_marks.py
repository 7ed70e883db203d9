"""Write text in small letters with marks for its capitals, so that HOUSE, House and house are the same pieces.

A mark is a word of its own, before the word that it stands for. Inside of that word it would make other pieces of it.
Restoring is exact: a word that would not be restored letter by letter stays as it is.
"""

import re
from collections.abc import Iterable
from itertools import groupby

from nmt_core.text.inline import INLINE

TITLE, UPPER, BEGIN, END = "\U0010fff1", "\U0010fff2", "\U0010fff3", "\U0010fff4"
"""Marks, as private-use characters.

A title begins the next word with a capital. Upper writes the next word in capitals. All words are in capitals from a
beginning to the next end."""
MARKS = (TITLE, UPPER, BEGIN, END)

_ANY = re.compile(f" ?{END}|[{TITLE}{UPPER}{BEGIN}] ?")
_WORD = re.compile(r"[^\W\d_][\w'’]*")
_MARKED = re.compile(rf"([{TITLE}{UPPER}]) ?({_WORD.pattern})")
_REGION = re.compile(f"{BEGIN} ?(.*?)(?: ?{END}|$)")
_TOGETHER = 3
"""Number of words in capitals from which they are marked together."""


def marked(line: str, kept: Iterable[re.Match[str]] = ()) -> str:
    """Return a line in small letters with marks. Marks that it holds already are left out.

    Args:
        line: text.
        kept: places of the line that stay as they are, besides addresses, tags and placeholders.
    """
    spans = [match.span() for match in (*kept, *INLINE.finditer(line))]
    words = [
        (match.span(), _mark_of(match[0]))
        for match in _WORD.finditer(line)
        if all(match.end() <= start or end <= match.start() for start, end in spans)
    ]
    parts, place = [], 0
    for mark, run in groupby(words, key=lambda word: word[1]):
        places = [span for span, _ in run]
        for start, end, text in _written(line, mark, places):
            parts += [line[place:start], text]
            place = end
    result = "".join([*parts, line[place:]])
    return result if restored(result) == line else line


def restored(line: str) -> str:
    """Return the line with the capitals that its marks stand for. Marks that stand for nothing are left out."""
    if not any(mark in line for mark in MARKS):
        return line
    line = _REGION.sub(lambda region: _ANY.sub("", region[1]).upper(), line)
    line = _MARKED.sub(lambda match: _with_capitals(match[2], match[1]), line)
    return _ANY.sub("", line)


def without_marks(line: str) -> str:
    """Return a line without characters that would be read as marks."""
    return line.translate(_NOTHING) if any(mark in line for mark in MARKS) else line


_NOTHING = dict.fromkeys(map(ord, MARKS))


def _mark_of(word: str) -> str:
    """Return the mark of a word. Empty means that it stays as it is."""
    small = word.lower()
    if small == word or not _WORD.fullmatch(small):
        return ""
    return next((mark for mark in (TITLE, UPPER) if _with_capitals(small, mark) == word), "")


def _with_capitals(word: str, mark: str) -> str:
    return word.upper() if mark == UPPER else word[:1].upper() + word[1:]


def _written(line: str, mark: str, places: list[tuple[int, int]]) -> Iterable[tuple[int, int, str]]:
    """Yield the places of a run of words with the same mark, and what is written there."""
    start, end = places[0][0], places[-1][1]
    region = line[start:end]
    if mark == UPPER and len(places) >= _TOGETHER and region.lower().upper() == region:
        yield start, end, f"{BEGIN} {region.lower()} {END}"
    elif mark:
        for start, end in places:
            yield start, end, f"{mark} {line[start:end].lower()}"
