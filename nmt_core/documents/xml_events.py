"""Read XML as a list of events with their places in the text, and write what replaces them.

Nothing outside the file is loaded, and a file that declares its own entities is refused, as in `formats.markup`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html.entities import html5
from typing import Literal, NamedTuple
from xml.parsers import expat

from nmt_core.documents.charset import MARK, decoded
from nmt_core.documents.document import Pieces
from nmt_core.errors import DataError

_DECLARED = re.compile(rb"""(?:\xef\xbb\xbf)?<\?xml(?=\s)[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


class Event(NamedTuple):
    """Start or end of an element, text, or something else such as a comment."""

    kind: Literal["start", "end", "text", "other"]
    start: int
    end: int
    """Position after the last character. An element without content has its end at the same position."""
    name: str = ""
    """Name of an element, with its prefix. Empty for other events."""
    text: str = ""
    """Text without references."""
    attributes: dict[str, str] = {}  # noqa: RUF012

    @property
    def local(self) -> str:
        """Name of an element without its prefix."""
        return self.name.rpartition(":")[2]


def decoded_xml(content: bytes, name: str) -> tuple[str, str]:
    """Return the text of an XML file and its charset.

    Raises:
        DataError: the charset is unknown.
    """
    declared = _DECLARED.match(content)
    charset = declared[1].decode() if declared else ""
    is_wide = charset.lower().startswith(("utf-16", "utf-32", "ucs-", "iso-10646-ucs-"))
    return decoded(content, name, "" if is_wide else charset)  # the first bytes are ASCII, so it is in no wide charset


@dataclass
class _Reader:
    text: str
    name: str
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        body = self.text.removeprefix(MARK)
        self._skipped = len(self.text) - len(body)
        try:
            self._bytes = body.encode()
        except UnicodeEncodeError as error:
            line = body.count("\n", 0, error.start) + 1
            raise DataError(
                f"{self.name}, line {line}: has bytes that are not in its charset: repair the file, or convert it"
            ) from None
        self._is_ascii = body.isascii()
        self._at, self._position = 0, self._skipped
        self._pending: tuple[Literal["start", "end", "text", "other"], int, str, str, dict[str, str]] | None = None
        self._cdata: list[str] | None = None
        """Text of the present CDATA section. None outside of one."""
        self._parser = parser = expat.ParserCreate("utf-8")  # overrides the declaration: the text is decoded
        parser.StartElementHandler = lambda name, attributes: self._event("start", name, "", attributes)
        parser.EndElementHandler = lambda name: self._event("end", name)
        parser.CharacterDataHandler = self._characters
        parser.StartCdataSectionHandler = self._begin_cdata
        parser.EndCdataSectionHandler = self._end_cdata
        parser.DefaultHandler = lambda data: self._default(data)
        parser.EntityDeclHandler = self._declared

    def _declared(self, entity: str, *_: object) -> None:
        raise DataError(
            f"{self.name}: declares the entity {entity!r}, which is not expanded: write the text itself in its place"
        )

    def _begin_cdata(self) -> None:
        self._event("text")
        self._cdata = []

    def _end_cdata(self) -> None:
        if self._pending and self._cdata is not None:  # the section, with its mark-up, is one event
            kind, start, name, _, attributes = self._pending
            self._pending = kind, start, name, "".join(self._cdata), attributes
        self._cdata = None

    def _characters(self, data: str) -> None:
        if self._cdata is None:
            self._event("text", "", data)
        else:
            self._cdata.append(data)

    def _default(self, data: str) -> None:
        is_entity = data.startswith("&") and data.endswith(";")  # declared in a file that is not loaded
        if is_entity and (text := html5.get(data[1:])):
            self._event("text", "", text)
        else:
            self._event("other", "", "")

    def read(self) -> list[Event]:
        try:
            self._parser.Parse(self._bytes, True)
        except expat.ExpatError as error:
            problem = expat.ErrorString(error.code)
            raise DataError(
                f"{self.name}, line {error.lineno}: is not well-formed XML ({problem}): repair that line"
            ) from None
        self._end(len(self._bytes))
        return self.events

    def _event(
        self,
        kind: Literal["start", "end", "text", "other"],
        name: str = "",
        text: str = "",
        attributes: dict[str, str] | None = None,
    ) -> None:
        position = self._end(self._parser.CurrentByteIndex)
        self._pending = kind, position, name, text, attributes or {}

    def _end(self, index: int) -> int:
        """End the last event at a byte, and return its position in the text."""
        if self._is_ascii:
            self._position = self._skipped + index
        elif index > self._at:
            self._position += len(self._bytes[self._at : index].decode())
        self._at = index
        if self._pending:
            kind, start, name, text, attributes = self._pending
            self.events.append(Event(kind, start, self._position, name, text, attributes))
        return self._position


def events_of(text: str, name: str) -> list[Event]:
    """Return the events of an XML file.

    Raises:
        DataError: it is not well-formed, or declares entities.
    """
    return _Reader(text, name).read()


def written(text: str) -> str:
    """Return text as XML writes it. Characters that XML forbids are left out."""
    return _FORBIDDEN.sub("", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render(pieces: Pieces) -> str:
    """Return a translation with its tags as XML."""
    return "".join(written(one) if isinstance(one, str) else one.markup for one in pieces)


def rendering(before: str, after: str) -> Callable[[Pieces], str]:
    """Return a function that writes a translation between two texts."""
    return lambda pieces: f"{before}{render(pieces)}{after}"


def space_before(text: str, position: int) -> str:
    """Return the white space right before a position of a text."""
    start = position
    while start and text[start - 1] in " \t\r\n":
        start -= 1
    return text[start:position]
