"""Read translation memories: TMX, and XLIFF 1.2 and 2.x.

Inline mark-up is removed from a segment together with the document code in it. The text between the codes stays. A code
that stands alone, such as a line break or a variable, leaves a space between words. Codes that come in pairs, such as
the two of bold text, leave none.
"""

import re
from collections.abc import Iterator

import polars as pl

from nmt_core.formats.languages import direction, fit
from nmt_core.formats.layout import Layout
from nmt_core.formats.markup import parse
from nmt_core.formats.rows import MISSING_LANGUAGE, UNTRANSLATED, Row, Text, frames_of, row_of
from nmt_core.formats.streams import ByteStream
from nmt_core.formats.xml_repair import GAP

_PAIRED_CODES = frozenset({"bpt", "ept", "it", "bx", "ex", "sc", "ec", "sub", "cp"})  # and codes without width
_LONE_CODES = frozenset({"ph", "x", "ut"})
_INLINE_CODES = _PAIRED_CODES | _LONE_CODES
"""Inline elements of TMX and XLIFF that hold mark-up of the original document, not text."""

# Tags of HTML for parts of a sentence, which some tools write as stand-alone codes.
_FORMATTING = re.compile(
    r"\s*</?(?:a|abbr|b|bdi|bdo|big|cite|code|del|em|font|i|ins|kbd|mark|q|s|samp|small|span|strike|strong|sub|sup|tt|u|var)"
    r"(?:\s[^<>]*)?>\s*",
    re.IGNORECASE,
)
_PAIRED_IDS = ("START_", "CLOSE_")  # as Angular names them
_PAIRED_TYPES = frozenset({"bold", "italic", "underlined", "link", "fmt"})

# By the definition of `state` in XLIFF 1.2, the text in these states is still to be translated or adapted. Two other
# kinds of state are kept: `needs-adaptation` concerns content other than text, and the review states mark a translation
# that awaits a reviewer.
_NOT_YET = ("new", "needs-translation", "needs-l10n", "initial")  # the last one belongs to XLIFF 2
_TRANSLATED = ("translated", "signed-off", "final")


def read_tmx(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield the pairs of each unit (`tu`): one, or more if it has several variants of a language (`de-DE` and `de-AT`).

    See `reader.read` for the tables and errors.
    """
    yield from frames_of(parse(stream, _Tmx(layout)), layout.max_line_bytes)


def read_xliff(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield a pair for each `trans-unit` or `segment`.

    A unit that the file marks as not yet translated gets a fault. A unit without such a mark counts as translated. The
    standards' defaults, `initial` and `approved="no"`, would make all text of most files unfinished. See `reader.read`
    for the tables and errors.
    """
    yield from frames_of(parse(stream, _Xliff(layout)), layout.max_line_bytes)


def stands_alone(element: str, attributes: dict[str, str], content: str) -> bool:
    """Return True if an inline code is not one of a pair."""
    if element not in _LONE_CODES or _FORMATTING.fullmatch(content):
        return False
    kind = attributes.get("ctype") or attributes.get("type", "")
    return not attributes.get("id", "").startswith(_PAIRED_IDS) and kind not in _PAIRED_TYPES


class _Tmx:
    """Handler for TMX (see `markup.Handler`)."""

    hidden = _INLINE_CODES | {"header", "note", "prop"}
    units = frozenset({"tu"})
    containers = frozenset({"body"})

    def __init__(self, layout: Layout) -> None:
        self.rows: list[Row] = []
        self.text: Text | None = None
        self._layout = layout
        self._variants: list[tuple[str, Text]] = []
        self._language = ""

    def start(self, element: str, attributes: dict[str, str]) -> None:
        if element == "tu":
            self._variants = []
        elif element == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang", "")
        elif element == "seg":
            self.text = Text(self._layout.max_line_bytes)

    def end(self, element: str) -> None:
        if element == "seg" and self.text:
            self._variants.append((self._language, self.text))
            self.text = None
        elif element == "tu":
            self.rows += self._pairs()

    def hide(self, element: str, attributes: dict[str, str], content: str) -> None:
        if self.text and stands_alone(element, attributes, content):
            self.text.add(GAP)

    def give_up(self) -> None:
        self._variants, self.text = [], None

    def _pairs(self) -> Iterator[Row]:
        """Yield the pairs of a unit. With several variants of a language, each is in one pair at least."""
        source, target = self._in(self._layout.source_language), self._in(self._layout.target_language)
        if not source or not target:
            there = ", ".join(dict.fromkeys(tag for tag, _ in self._variants)) or "none"
            first = [texts[0] if texts else None for texts in (source, target)]
            yield row_of(first[0], first[1], MISSING_LANGUAGE, f"only {there}")
            return
        for number in range(max(len(source), len(target))):
            yield row_of(source[min(number, len(source) - 1)], target[min(number, len(target) - 1)])

    def _in(self, language: str) -> list[Text]:
        """Return the variants that fit a language best."""
        fits = [(fit(tag, language), text) for tag, text in self._variants]
        best = max((rank for rank, _ in fits), default=0)
        return [text for rank, text in fits if rank and rank == best]


class _Xliff:
    """Handler for XLIFF (see `markup.Handler`)."""

    units = frozenset({"trans-unit", "segment"})
    containers = frozenset({"file", "body", "group", "unit"})
    hidden = _INLINE_CODES | {"alt-trans", "match", "matches", "ignorable", "note", "seg-source", "header"}

    def __init__(self, layout: Layout) -> None:
        self.rows: list[Row] = []
        self.text: Text | None = None
        self._layout = layout
        self._sides: dict[str, Text] = {}
        self._languages = ("", "")
        self._state = self._approved = ""

    def start(self, element: str, attributes: dict[str, str]) -> None:
        if element == "xliff":
            self._languages = attributes.get("srcLang", ""), attributes.get("trgLang", "")
        elif element == "file":
            self._languages = (
                attributes.get("source-language", self._languages[0]),
                attributes.get("target-language", self._languages[1]),
            )
        elif element in ("trans-unit", "segment"):
            self._sides = {}
            self._state, self._approved = attributes.get("state", ""), attributes.get("approved", "")
        elif element in ("source", "target"):
            self.text = self._sides[element] = Text(self._layout.max_line_bytes)
            self._state = attributes.get("state", self._state)  # on the target in XLIFF 1.2, on the segment in 2

    def end(self, element: str) -> None:
        if element in ("source", "target"):
            self.text = None
        elif element in ("trans-unit", "segment"):
            source, target = self._sides.get("source"), self._sides.get("target")
            way = direction(*self._languages, self._layout)
            if way == "backward":
                source, target = target, source
            if way == "other":
                self.rows.append(row_of(source, target, MISSING_LANGUAGE, " to ".join(self._languages)))
            elif self._state in _NOT_YET:
                self.rows.append(row_of(source, target, UNTRANSLATED, self._state))
            elif self._approved == "no" and self._state not in _TRANSLATED:  # the form of converted fuzzy entries
                self.rows.append(row_of(source, target, UNTRANSLATED, 'approved="no"'))
            else:
                self.rows.append(row_of(source, target))

    def hide(self, element: str, attributes: dict[str, str], content: str) -> None:
        if self.text and stands_alone(element, attributes, content):
            self.text.add(GAP)

    def give_up(self) -> None:
        self._sides, self.text = {}, None
