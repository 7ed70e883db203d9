"""Find the runs of a line that are no language: base64, hashes, minified code, one letter a thousand times.

A model was never trained on them: `clean` drops words of more than `clean.max_word_characters`, which is 40. It would
translate a line of a megabyte without a space in a thousand parts, for minutes, into invented text. `Translator` copies
such runs.

No language has words of more than 500 characters. The longest known one, a Sanskrit
compound, has 195.
Text that is broken into lines, as base64 in mail is, has words of 32 characters or more, one after the other. No
language has those either. Scripts without spaces have no such runs, however long their lines are.
"""

import re

from nmt_core.text.unspaced import LETTERS_OR_WIDE

MOST_CHARACTERS = 500
"""Length of the longest run, in characters, that may be language."""
_FEWEST_IN_A_WORD = 32
"""Length of the shortest word of a run of several words. An MD5 sum has as many hexadecimal digits."""

SPACES = r"\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u2800\u3000\u3164\uffa0"
"""Inside of a class of `re`: what `spelling` takes for a space."""
_DIVIDERS = r"\u1361\u16eb-\u16ed\U00010100\U00010101\U0001039f\U000103d0\U0001091f"
"""Inside of a class of `re`: marks between words where no spaces are, as in Ethiopic and runes."""
_IN_A_RUN = f"[^{SPACES}{_DIVIDERS}{LETTERS_OR_WIDE}]"
_WORDS = rf"{_IN_A_RUN}{{{_FEWEST_IN_A_WORD},}}+"
# A run begins only where a word begins, and spaces are no part of words: the time is proportional to the text. A
# possessive group would be as fast, but in Python 3.11.2 it may end behind what it tried last.
_RUN = re.compile(rf"(?<!{_IN_A_RUN}){_WORDS}(?:[{SPACES}]+{_WORDS})*")

Span = tuple[int, int]


def long_runs(text: str) -> list[Span]:
    """Return the places of the runs of more than 500 characters that are no language, in order."""
    if len(text) <= MOST_CHARACTERS:
        return []
    return [match.span() for match in _RUN.finditer(text) if match.end() - match.start() > MOST_CHARACTERS]
