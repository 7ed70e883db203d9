"""Normalise the spelling of text, in the same way for training text and for text to translate.

The patterns mean the same in Python's regular expressions and in polars. `Spelling.tidy` does to one line what
`corpus/normalize.py` does to whole columns, except that it does not resolve entities.
"""

import re
import unicodedata
from functools import cache
from typing import Literal, NamedTuple

from nmt_core.config import CleanConfig
from nmt_core.text import mojibake
from nmt_core.text.widths import Width, set_width

UnicodeForm = Literal["NFC", "NFKC"]
Punctuation = Literal["as_is", "moses"] | Width

# C0 controls that are not white space, soft hyphen, zero-width space, word joiner and byte order mark, marks of writing
# direction, annotations. The zero-width joiners stay: Persian and the scripts of India spell with them.
INVISIBLE = (
    r"\x00-\x08\x0e-\x1f\x7f\u00ad\u061c\u180e\u200b\u200e\u200f"
    r"\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb"
)
"""Invisible characters, as the contents of a character class."""

SPACES = r"[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u2800\u3000\u3164\uffa0]+"
"""White space of any kind and length, with the blank of Braille and the Hangul fillers. One space replaces it."""

WIDE_FILLERS = r"[\u3164\uffa0]"
"""Hangul fillers that look like a space. A Unicode form may turn them into the fillers of old syllables."""

LONE_FILLERS = r"(^| )(?:[\u115f\u1160]+(?: |$))+"
"""Words that consist of the fillers of old Hangul syllables only, so that nothing is seen. The first group stays."""

# Of C1 controls, the repair of mojibake leaves those that stand for nothing. Training text that holds any is dropped.
_INVISIBLE = re.compile(rf"[{INVISIBLE}\x80-\x84\x86-\x9f]")
_SPACES = re.compile(SPACES)
_WIDE_FILLERS = re.compile(WIDE_FILLERS)
_LONE_FILLERS = re.compile(LONE_FILLERS)

_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""Characters without a shape of their own that `INVISIBLE` leaves in text: joiners, fillers, selectors, tags."""
_NO_SHAPE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})

_NO_BREAK_SPACE = r"[\u00a0\u202f]"
_COMMA_IN_NUMBERS = frozenset({"cs", "de", "es", "fr"})


class Rule(NamedTuple):
    """Substitution for text that matches the pattern. \\1 in the replacement is the first group."""

    pattern: str
    replacement: str


_SPACES_AT_BRACKETS = (
    Rule(r"\(", " ("),
    Rule(r"\)", ") "),
    Rule(" +", " "),
    Rule(r"\) ([.!:?;,])", r")\1"),
    Rule(r"\( ", "("),
    Rule(r" \)", ")"),
)
_SPACES_AT_MARKS = (
    Rule(rf"{_NO_BREAK_SPACE}([%:;?!])", r"\1"),
    Rule("([0-9]) %", r"\1%"),
    Rule(" ([:;])", r"\1"),
)
_QUOTES_AND_DASHES = (
    Rule("`", "'"),
    Rule("''", ' " '),
    Rule("[´‘’‚]", "'"),
    Rule("''", '"'),
    Rule(rf"{_NO_BREAK_SPACE}?«{_NO_BREAK_SPACE}?|{_NO_BREAK_SPACE}?»|[„“”]", '"'),
    Rule("–", "-"),
    Rule("—", " - "),
    Rule("…", "..."),
)
# Whole runs are moved: one mark at a time, a run would take as many rounds as it has marks. The text that a run moves
# past is optional, so that a run always matches. Otherwise Python would search again from each mark of the run, and
# 50,000 commas would take seconds.
_COMMA_BEFORE_QUOTE = (Rule('("+)([,.]*)', r"\2\1"),)
_COMMA_BEHIND_QUOTE = (
    Rule('(,+)("*)', r"\2\1"),
    Rule(r'(\.+)(?:("+)(\s*[^<\s]))?', r"\2\1\3"),
)


@cache
def moses_rules(language: str) -> tuple[Rule, ...]:
    """Return the substitutions of Moses' normalize-punctuation for a language, in order.

    English sets commas and full stops before a closing quote, Czech leaves them where they are, and the other languages
    set them after it. A no-break space in a number becomes a comma in some languages and a full stop in the others.
    """
    quotes = {"en": _COMMA_BEFORE_QUOTE, "cs": ()}.get(language, _COMMA_BEHIND_QUOTE)
    mark = "," if language in _COMMA_IN_NUMBERS else "."
    numbers = Rule(rf"([0-9]){_NO_BREAK_SPACE}([0-9])", rf"\1{mark}\2")
    return (*_SPACES_AT_BRACKETS, *_SPACES_AT_MARKS, *_QUOTES_AND_DASHES, *quotes, numbers)


class Spelling(NamedTuple):
    """Spelling of the text of one language."""

    unicode_form: UnicodeForm = "NFC"
    punctuation: Punctuation = "as_is"
    language: str = ""
    """ISO 639 code, for the punctuation. Empty means any language."""

    @staticmethod
    def of(config: CleanConfig, language: str) -> "Spelling":
        """Return the spelling that a recipe sets."""
        return Spelling(config.unicode_form, config.punctuation, language)

    def tidy(self, line: str) -> str:
        """Return the line as training text is written, without line breaks and invisible characters. Idempotent."""
        tidied = self._tidy_once(line)
        while tidied != line:  # a removal can join text that is then replaced
            line, tidied = tidied, self._tidy_once(tidied)
        return tidied

    def _tidy_once(self, line: str) -> str:
        line = mojibake.repair(line)
        if self.punctuation == "moses":
            for rule in moses_rules(self.language):
                line = re.sub(rule.pattern, rule.replacement, line)
        elif self.punctuation != "as_is":
            line = set_width(line, self.punctuation, self.language)
        line = _WIDE_FILLERS.sub(" ", _INVISIBLE.sub("", line))
        line = _SPACES.sub(" ", unicodedata.normalize(self.unicode_form, line))
        return _LONE_FILLERS.sub(r"\1", line).strip(" ")


def is_visible(text: str) -> bool:
    """Return True if a text has a character that is seen."""
    return any(unicodedata.category(character) not in _NO_SHAPE and not _UNSEEN.match(character) for character in text)


AS_IT_IS = Spelling()
"""Spelling that every text gets: composed, on one line, without invisible characters."""
