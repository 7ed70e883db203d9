"""Read translation memories: TMX, and XLIFF 1.2 and 2.x.

Inline mark-up is removed from a segment together with the document code in it. The text between the codes stays.
"""

from collections.abc import Iterator

import polars as pl

from nmt_core.formats.languages import canonical, direction
from nmt_core.formats.layout import Layout
from nmt_core.formats.markup import INLINE_CODES, parse
from nmt_core.formats.rows import MISSING_LANGUAGE, UNTRANSLATED, Row, Text, frames_of, row_of
from nmt_core.formats.streams import ByteStream

# By the definition of `state` in XLIFF 1.2, the text in these states is still to be translated or adapted. Two other
# kinds of state are kept: `needs-adaptation` concerns content other than text, and the review states mark a translation
# that awaits a reviewer.
_NOT_YET = ("new", "needs-translation", "needs-l10n", "initial")  # the last one belongs to XLIFF 2
_TRANSLATED = ("translated", "signed-off", "final")


def read_tmx(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield a pair for each unit (`tu`): its first variant in each language.

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


class _Tmx:
    """Handler for TMX (see `markup.Handler`)."""

    hidden = INLINE_CODES | {"header", "note", "prop"}

    def __init__(self, layout: Layout) -> None:
        self.rows: list[Row] = []
        self.text: Text | None = None
        self._layout = layout
        self._variants: dict[str, Text] = {}
        self._language = ""

    def start(self, element: str, attributes: dict[str, str]) -> None:
        if element == "tu":
            self._variants = {}
        elif element == "tuv":
            self._language = canonical(attributes.get("xml:lang") or attributes.get("lang", ""))
        elif element == "seg":
            self.text = Text(self._layout.max_line_bytes)

    def end(self, element: str) -> None:
        if element == "seg" and self.text:
            self._variants.setdefault(self._language, self.text)
            self.text = None
        elif element == "tu":
            languages = self._layout.source_language, self._layout.target_language
            source, target = (self._variants.get(canonical(language)) for language in languages)
            if source and target:
                self.rows.append(row_of(source, target))
            else:
                self.rows.append(row_of(source, target, MISSING_LANGUAGE, f"only {', '.join(self._variants)}"))


class _Xliff:
    """Handler for XLIFF (see `markup.Handler`)."""

    hidden = INLINE_CODES | {"alt-trans", "match", "matches", "ignorable", "note", "seg-source", "header"}

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
