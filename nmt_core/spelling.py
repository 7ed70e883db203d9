"""Normalise the spelling of text, in the same way for training text and for text to translate.

The patterns mean the same in Python's regular expressions and in polars. `Spelling.tidy` does to one line what
`corpus/normalize.py` does to whole columns, except that it does not resolve entities.
"""

import re
import unicodedata
from functools import cache
from typing import Literal, NamedTuple

from nmt_core import mojibake
from nmt_core.config import CleanConfig

UnicodeForm = Literal["NFC", "NFKC"]
Punctuation = Literal["as_is", "moses"]

# C0 controls that are not white space, soft hyphen, zero-width space, word joiner and byte order mark, marks of writing
# direction, annotations. The zero-width joiners stay: Persian and the scripts of India spell with them.
INVISIBLE = (
    r"\x00-\x08\x0e-\x1f\x7f\u00ad\u061c\u180e\u200b\u200e\u200f"
    r"\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb"
)
"""Invisible characters, as the contents of a character class."""

SPACES = r"[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
"""White space of any kind and length. One space replaces it."""

# Of C1 controls, the repair of mojibake leaves those that stand for nothing. Training text that holds any is dropped.
_INVISIBLE = re.compile(rf"[{INVISIBLE}\x80-\x84\x86-\x9f]")
_SPACES = re.compile(SPACES)

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
        return _SPACES.sub(" ", unicodedata.normalize(self.unicode_form, _INVISIBLE.sub("", line))).strip(" ")


AS_IT_IS = Spelling()
"""Spelling that every text gets: composed, on one line, without invisible characters."""
