"""Translation memories: TMX, and XLIFF 1.2 and 2.x.

Mark-up inside a segment goes, with the code of the document that it holds; the text between it stays.
"""

from collections.abc import Iterator

import polars as pl

from nmt_core.formats.languages import canonical, direction
from nmt_core.formats.layout import Layout
from nmt_core.formats.markup import INLINE_CODES, parse
from nmt_core.formats.rows import MISSING_LANGUAGE, UNTRANSLATED, Row, Text, frames_of, row_of
from nmt_core.formats.streams import ByteStream

# As XLIFF 1.2 explains `state`, the text of these is still to be translated or adapted. With `needs-adaptation` that is
# so of what is no text, and with the states of a review it is a translation that somebody is to read: both are kept.
_NOT_YET = ("new", "needs-translation", "needs-l10n", "initial")  # the last is of XLIFF 2
_TRANSLATED = ("translated", "signed-off", "final")


def read_tmx(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """A pair for each unit (`tu`): its first variant in each language; see `reader.read` for the tables and errors."""
    yield from frames_of(parse(stream, _Tmx(layout)), layout.max_line_bytes)


def read_xliff(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """A pair for each `trans-unit` or `segment`; see `reader.read` for the tables and errors.

    What its owner says is not translated yet is a fault. A file that says nothing is believed: by the standards'
    defaults, `initial` and `approved="no"`, all text of most files would be unfinished.
    """
    yield from frames_of(parse(stream, _Xliff(layout)), layout.max_line_bytes)


class _Tmx:
    """See `markup.Handler`."""

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
    """See `markup.Handler`."""

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
            self._state = attributes.get("state", self._state)  # of the target in XLIFF 1.2, of the segment in 2

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
            elif self._approved == "no" and self._state not in _TRANSLATED:  # as gettext's fuzzy entries are converted
                self.rows.append(row_of(source, target, UNTRANSLATED, 'approved="no"'))
            else:
                self.rows.append(row_of(source, target))
