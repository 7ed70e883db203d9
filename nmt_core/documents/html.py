"""Read HTML, whole or a fragment, well formed or not.

Elements within a sentence, such as links, become tags of its segment. All other elements end a segment. Scripts,
styles, preformatted text and everything with `translate="no"` or the class `notranslate` stay as they are. Code within
a sentence is part of the sentence, and stays as it is.
"""

import re
from collections.abc import Callable, Sequence
from html import escape, unescape
from html.parser import HTMLParser

from nmt_core.documents.builder import Builder
from nmt_core.documents.charset import decoded, places_in
from nmt_core.documents.document import Document, Edit, Options, Pieces, Segment, Translated
from nmt_core.documents.splicing import TextDocument, spliced
from nmt_core.errors import DataError

_SKIPPED = frozenset({"script", "style", "pre", "textarea", "template", "svg", "math", "noscript", "iframe", "object"})
_KEPT = frozenset({"code", "kbd", "samp", "tt", "var"})
_INLINE = _KEPT | frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "ins",
        "mark",
        "q",
        "ruby",
        "rp",
        "rt",
        "s",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "u",
        "wbr",
    ]
)
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
)
_CHARSET = re.compile(rb"<meta\s[^>]*?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_DECLARED = re.compile(rb"""<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")
_HEAD = 1 << 14
_UNFINISHED_TAG = re.compile(r"<[A-Za-z/][^<>]*\Z")
"""Tag that the end of a page cuts off. Browsers do not show it."""


def read_html(content: bytes, name: str, options: Options) -> Document:
    """Return an HTML page.

    Raises:
        DataError: the charset is unknown.
    """
    head = content[:_HEAD]
    declared = _CHARSET.search(head) or _DECLARED.match(head)
    text, charset = decoded(content, name, _known(declared[1].decode()) if declared else "")
    return html_of(text, charset, name)


def html_of(text: str, charset: str = "utf-8", name: str = "HTML") -> TextDocument:
    """Return a page whose text is decoded."""
    segments, edits = read_part(text, 0, len(text), places_in(text), name)
    return TextDocument(text, charset, segments, edits, has_references=True)


def filled(page: TextDocument, translations: Sequence[Translated | None]) -> str:
    """Return a page with translations, as text."""
    return spliced(page, translations, lambda text: text)[0]


def read_part(
    text: str, start: int, end: int, place: Callable[[int], str], name: str, first: int = 0
) -> tuple[list[Segment], list[Edit]]:
    """Return the segments and edits of a part of a text. The segments count from `first`.

    Raises:
        DataError: Python's parser gives up, as on some unfinished declarations.
    """
    parser = _Parser(text, start, end, place, first)
    try:
        parser.read()
    except (AssertionError, ValueError) as error:
        raise DataError(f"{name}, {place(parser.position())}: cannot be read as HTML ({error}): repair it") from None
    return parser.segments, parser.edits


def render(pieces: Pieces) -> str:
    """Return a translation with its tags as HTML."""
    return "".join(escape(one, quote=False) if isinstance(one, str) else one.markup for one in pieces)


def _known(charset: str) -> str:
    """Return a charset of a page without the parts of Windows-1252 that have no meaning: all bytes of Latin-1 have."""
    is_wide = charset.casefold().startswith(("utf-16", "utf-32", "ucs"))  # a page that can declare it is not in it
    return "utf-8" if is_wide else charset


class _Parser(HTMLParser):
    """Parser of one page or part of a page."""

    def __init__(self, text: str, start: int, end: int, place: Callable[[int], str], first: int) -> None:
        super().__init__(convert_charrefs=False)
        self.segments: list[Segment] = []
        self.edits: list[Edit] = []
        self._text, self._from, self._end, self._first = text, start, end, first
        self._part = text[start:end]
        self._line_starts = [0]
        for line in self._part.split("\n"):
            self._line_starts.append(self._line_starts[-1] + len(line) + 1)
        self._builder = Builder(text, place)
        self._run: tuple[int, int] | None = None
        """Text that has been read since the last tag."""
        self._skipped: list[str] = []
        """Open elements whose text stays, from the outermost."""
        self._kept: list[str] = []
        """Open elements of code within a sentence, from the outermost."""
        self._kept_from = 0
        self._tag: tuple[int, Callable[[int, int], None]] | None = None
        """Start of a tag whose end is not known yet, and what is done with it then."""

    def read(self) -> None:
        """Read everything."""
        unfinished = _UNFINISHED_TAG.search(self._part)
        self.feed(self._part[: unfinished.start()] if unfinished else self._part)
        self.close()
        self._before(self._end)
        self._finish(self._end)

    def position(self) -> int:
        """Return the present position in the whole text."""
        line, column = self.getpos()
        return self._from + min(self._line_starts[min(line, len(self._line_starts)) - 1] + column, len(self._part))

    def _before(self, position: int) -> None:
        """End what was begun before a position: the run of text, or a tag."""
        if self._tag:
            start, act = self._tag
            self._tag = None
            act(start, position)
        if self._run:
            start, end = self._run
            self._run = None
            if not self._skipped and not self._kept:
                self._builder.add_text(start, end, unescape(self._text[start:end]))

    def _finish(self, position: int) -> None:
        """End the segment."""
        if self._kept:
            self._add_kept(position)
        built = self._builder.built()
        if built:
            number = self._first + len(self.segments)
            self.segments.append(built.segment)
            self.edits.append(Edit(built.start, built.end, (number,), render, current=built.segment.text))

    def _add_kept(self, end: int) -> None:
        self._kept = []
        raw = self._text[self._kept_from : end]
        self._builder.add_kept(self._kept_from, end, unescape(re.sub(r"<[^>]*>", "", raw)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        at = self.position()
        self._before(at)
        values = dict(attrs)
        stays = values.get("translate") == "no" or "notranslate" in (values.get("class") or "").split()
        if self._skipped:
            self._skipped += [tag] if tag not in _VOID else []
        elif self._kept and tag in _INLINE:
            self._kept += [tag] if tag not in _VOID else []
        elif tag in _VOID and tag in _INLINE:
            self._tag = at, lambda start, end: self._builder.add_tag(start, end, "alone", is_glued=tag == "wbr")
        elif tag in _VOID:
            self._finish(at)
        elif tag in _KEPT or (stays and tag in _INLINE):
            self._kept, self._kept_from = [tag], at
        elif tag in _INLINE:
            self._tag = at, lambda start, end: self._builder.add_tag(start, end, "open", tag)
        else:
            self._finish(at)
            self._skipped = [tag] if stays or tag in _SKIPPED else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Pass an element without content."""
        at = self.position()
        self._before(at)
        if self._skipped or self._kept:
            return
        if tag in _INLINE:
            self._tag = at, lambda start, end: self._builder.add_tag(start, end, "alone")
        else:
            self._finish(at)

    def handle_endtag(self, tag: str) -> None:
        """End an element, and the elements in it that were left open."""
        at = self.position()
        self._before(at)
        if self._skipped:
            if tag in self._skipped:
                while self._skipped.pop() != tag:
                    pass
        elif self._kept and tag in self._kept:
            while self._kept.pop() != tag:
                pass
            if not self._kept:
                self._kept = [tag]
                self._tag = at, lambda start, end: self._add_kept(end)
        elif self._kept and tag in _INLINE:
            return
        elif tag in _INLINE:
            self._tag = at, lambda start, end: self._builder.add_tag(start, end, "close", tag)
        else:
            self._finish(at)

    def _pass(self) -> None:
        """Pass a comment or a declaration, which stays at its place in the sentence."""
        at = self.position()
        self._before(at)
        if not self._skipped and not self._kept:
            self._tag = at, lambda start, end: self._builder.add_tag(start, end, "alone", is_glued=True)

    def handle_comment(self, data: str) -> None:
        """Pass a comment."""
        self._pass()

    def handle_decl(self, decl: str) -> None:
        """Pass a declaration."""
        self._pass()

    def handle_pi(self, data: str) -> None:
        """Pass a processing instruction."""
        self._pass()

    def unknown_decl(self, data: str) -> None:
        """Pass a marked section, such as CDATA."""
        self._pass()

    def handle_data(self, data: str) -> None:
        """Read text."""
        self._add(len(data))

    def handle_entityref(self, name: str) -> None:
        """Read a character that is written by its name."""
        self._add(1 + len(name))

    def handle_charref(self, name: str) -> None:
        """Read a character that is written by its number."""
        self._add(2 + len(name))

    def _add(self, length: int) -> None:
        at = self.position()
        if self._run is None or self._tag:
            self._before(at)
            self._run = at, at
        end = at + length
        end += end < self._end and self._text[at] == "&" and self._text[end] == ";"
        self._run = self._run[0], max(self._run[1], min(end, self._end))
