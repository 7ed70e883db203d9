"""Parse XML as a stream of events, in the memory of one unit.

Nothing outside the file is loaded. A file that declares its own entities is rejected: a few lines of them can expand
to gigabytes. A bare `<!DOCTYPE tmx SYSTEM "tmx14.dtd">` is harmless and common. Characters and entities that XML
forbids are common too, and are repaired (see `xml_repair`). Where a fault remains, as in a tag without its partner, the
unit with the fault is dropped, and parsing resumes at the next unit.
"""

import re
from collections.abc import Iterator
from html.entities import html5
from typing import Protocol
from xml.parsers import expat

from nmt_core.errors import DataError
from nmt_core.formats.charsets import UTF_8, charset_of, in_utf8, shown_charset
from nmt_core.formats.rows import INVALID_UTF8, UNTRANSLATED, Row, Text
from nmt_core.formats.streams import ByteStream
from nmt_core.formats.xml_repair import GAP, INVALID, Repairer
from nmt_core.text.unspaced import UNSPACED_OR_WIDE

INVALID_XML = "invalid_xml"

_BLOCK_BYTES = 1 << 18
_MOST_BYTES_OF_A_TAG = 1 << 22

_DECLARED = re.compile(rb"""<\?xml(?=\s)[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")
_SHOWN = 100
_MOST_BYTES_OF_A_NAME = 64
_PIECES_OF_A_CODE = 16

_MARKS = re.compile(f"[{GAP}{INVALID}]")
_ENDS, _BEGINS = r"[\w.,;:!?%)\]}”»…]", r"[\w(\[{“«„¿¡]"
_GAP = re.compile(rf"(?<=({_ENDS})){GAP}+(?=({_BEGINS}))")


class Handler(Protocol):
    """Protocol of the classes that turn the elements of a format into rows."""

    @property
    def hidden(self) -> frozenset[str]:
        """Elements to skip together with their content."""

    @property
    def units(self) -> frozenset[str]:
        """Elements that hold one unit each. A fault costs the unit that it is in."""

    @property
    def containers(self) -> frozenset[str]:
        """Elements that hold units."""

    rows: list[Row]
    """Complete rows. The parser takes them and empties the list."""
    text: Text | None
    """Text that receives the characters. None discards them."""

    def start(self, element: str, attributes: dict[str, str]) -> None:
        """Handle the start of an element. Its name has no prefix."""

    def end(self, element: str) -> None:
        """Handle the end of an element."""

    def hide(self, element: str, attributes: dict[str, str], content: str) -> None:
        """Handle the end of a hidden element. `content` is its text, or the beginning of a long one."""

    def give_up(self) -> None:
        """Forget the unit that was begun."""


def parse(stream: ByteStream, handler: Handler) -> Iterator[Row]:
    """Yield the rows that the handler makes of a file. A unit that is not well-formed becomes a row with a fault.

    Raises:
        DataError: the file is truncated, is not XML, or declares entities.
    """
    shown = shown_charset(stream.peek())
    text = in_utf8(stream, shown if shown != UTF_8 else _charset(stream))
    if text is stream and not stream.is_decoded and stream.peek(3).startswith(b"\xef\xbb\xbf"):
        stream.read(3)
    yield from _Parser(text, handler).rows()


def _charset(stream: ByteStream) -> str:
    """Return the charset of the file: the declared one, or UTF-8 if none is declared.

    The first bytes are ASCII, so a declared UTF-16, UTF-32 or UCS charset is wrong and is ignored.
    """
    head = stream.peek()
    declared = _DECLARED.match(head)
    if declared is None or declared[1].lower().startswith((b"utf-16", b"utf-32", b"ucs-", b"iso-10646-ucs-")):
        return UTF_8
    return charset_of(declared[1].decode(), stream.name)


class _NestedUnitError(Exception):
    """Error for a unit that begins within another: the end of the first is missing.

    `position` and `line` are the place of the inner one.
    """

    def __init__(self, element: str, position: int, line: int) -> None:
        super().__init__(f"<{element}> within another: the end of the first is missing")
        self.position, self.line = position, line


class _Parser:
    """Parser of one file. After a fault it begins anew at the next unit, within the same elements."""

    def __init__(self, stream: ByteStream, handler: Handler) -> None:
        self._stream, self._handler, self._repairer = stream, handler, Repairer()
        names = "|".join(sorted(handler.units | handler.containers))
        self._next = re.compile(rf"<(?:[\w.-]+:)?({names})(?=[\s>/])".encode())
        self._root = ""
        self._around = list[str]()
        """Elements around the current place, with their prefixes, from the root on."""
        self._hidden: list[str] | None = None
        """Text of the hidden element around the current place. None outside of one."""
        self._attributes: dict[str, str] = {}
        self._hidden_from = 0
        self._line = 1
        """Number of the line at which the present expat parser began."""
        self._given, self._given_from = b"", 0
        """Bytes since the beginning of the last event, and their position in what expat was given."""
        self._lost = b""
        """Last bytes that were skipped in search of the next unit."""
        self._is_lost = False
        self._is_complete = False
        """True if the end of the root was seen while skipping."""
        self._is_replaying = False
        self._expat = self._begin()

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the whole file."""
        while block := self._stream.read(_BLOCK_BYTES):
            yield from self._feed(self._repairer.repair(block))
            if self._given_from + len(self._given) - self._expat.CurrentByteIndex > _MOST_BYTES_OF_A_TAG:
                raise DataError(f"{self._stream.name}, line {self._at:,}: a tag without an end: repair the file")
        yield from self._feed(self._repairer.repair(b"", is_last=True))
        if self._is_lost:
            if not self._is_complete:
                raise self._damaged("the end of the file is missing")
            return
        try:
            self._expat.Parse(b"", True)
        except expat.ExpatError as error:
            raise self._damaged(error) from None
        yield from self._taken()

    @property
    def _at(self) -> int:
        return self._line + self._expat.CurrentLineNumber - 1

    def _damaged(self, problem: object) -> DataError:
        return DataError(
            f"{self._stream.name}: the XML is truncated or damaged ({problem}): fetch it again, or repair that line"
        )

    def _feed(self, block: bytes) -> Iterator[Row]:
        """Parse a block, and what follows the next beginning of a unit after each fault in it."""
        while block:
            if self._is_lost:
                block = self._search(block)
                continue
            self._given += block
            try:
                self._expat.Parse(block)
                block = b""
            except (expat.ExpatError, _NestedUnitError) as error:
                block = self._leave(error)
            yield from self._taken()
            if not self._is_lost:
                used = max(0, self._expat.CurrentByteIndex - self._given_from)
                self._given, self._given_from = self._given[used:], self._given_from + used

    def _taken(self) -> Iterator[Row]:
        for row in self._handler.rows:
            yield _without_marks(row) if _MARKS.search(row.source) or _MARKS.search(row.target) else row
        self._handler.rows.clear()

    def _leave(self, error: Exception) -> bytes:
        """Report the unit with a fault, and return the bytes in which to search the next one.

        Raises:
            DataError: the fault is before the root, so the file is not the XML that it seemed to be.
        """
        if not self._root:
            raise self._damaged(error) from None
        is_nested = isinstance(error, _NestedUnitError)
        if isinstance(error, _NestedUnitError):
            position, line, problem = error.position, error.line, str(error)
        else:
            position, problem = self._expat.ErrorByteIndex, expat.ErrorString(self._expat.ErrorCode)
            line = self._line + self._expat.ErrorLineNumber - 1
        start = max(0, position - self._given_from)
        begins = [match.start() for match in self._next.finditer(self._given, max(0, start - 4 * _SHOWN), start)]
        begin = begins[-1] if begins else max(0, start - _SHOWN)
        shown = self._given[begin : start + _SHOWN].decode("utf-8", "replace").strip()
        self._handler.give_up()
        self._handler.rows.append(Row(shown, "", INVALID_XML, f"line {line}: {problem}"))
        self._line, self._lost, self._is_lost = line, b"", True
        self._is_complete = not self._around
        rest = self._given[start:]
        self._given = b""
        return rest if is_nested or not self._next.match(rest) or start else rest[1:]

    def _search(self, block: bytes) -> bytes:
        """Skip to the next beginning of a unit, and return the bytes from there on."""
        block = self._lost + block
        match = self._next.search(block)
        end = match.start() if match else max(0, block.rfind(b"<"), len(block) - _MOST_BYTES_OF_A_NAME)
        skipped, self._lost = block[:end], b"" if match else block[end:]
        self._line += skipped.count(b"\n")
        closing = f"</{self._root}>".encode()
        if closing in re.sub(rb"\s+>", b">", block):
            self._is_complete = True
        if not match:
            return b""
        name = match[1].decode()
        self._is_lost = self._is_complete = False
        self._begin_within(name)
        return block[end:]

    def _begin_within(self, name: str) -> None:
        """Begin a new parser at an element that is a unit or holds units."""
        around = [element.rpartition(":")[2] for element in self._around]
        holders = [place for place, element in enumerate(around) if element in self._handler.containers]
        if name in around:
            kept = around.index(name)
        elif name in self._handler.units and holders:
            kept = holders[-1] + 1
        else:
            kept = 1
        self._around = (self._around or [self._root])[:kept]
        self._hidden = None
        self._expat = self._begin()
        opening = "".join(f"<{element}>" for element in self._around).encode()
        self._is_replaying, self._around = True, []
        self._expat.Parse(opening)
        self._is_replaying = False
        self._given, self._given_from = b"", len(opening)

    def _begin(self) -> expat.XMLParserType:
        parser = expat.ParserCreate(UTF_8)  # overrides the declaration: expat supports few charsets
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.SkippedEntityHandler = self._skipped_entity
        parser.EntityDeclHandler = self._declared_entity
        return parser

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        local = element.rpartition(":")[2]
        handler, around = self._handler, self._around
        is_unit = local in handler.units and not self._is_replaying and self._hidden is None
        if is_unit and any(name.rpartition(":")[2] == local for name in around):
            raise _NestedUnitError(element, self._expat.CurrentByteIndex, self._at)
        self._root = self._root or element
        around.append(element)
        if self._is_replaying or self._hidden is not None:
            return
        if local in handler.hidden:
            self._hidden, self._hidden_from, self._attributes = [], len(around), attributes
        else:
            handler.start(local, attributes)

    def _end(self, element: str) -> None:
        local = element.rpartition(":")[2]
        if self._hidden is None:
            self._handler.end(local)
        elif len(self._around) == self._hidden_from:
            self._handler.hide(local, self._attributes, "".join(self._hidden))
            self._hidden = None
        self._around.pop()

    def _characters(self, data: str) -> None:
        if self._hidden is not None:
            if len(self._hidden) < _PIECES_OF_A_CODE:
                self._hidden.append(data)
        elif self._handler.text:
            self._handler.text.add(data)

    def _skipped_entity(self, entity: str, is_parameter: bool) -> None:
        if not is_parameter:
            self._characters(html5.get(f"{entity};", f"&{entity};"))

    def _declared_entity(self, entity: str, *_: object) -> None:
        raise DataError(
            f"{self._stream.name}: declares the entity {entity!r}, which is not expanded: write the text itself in its "
            "place"
        )


def _without_marks(row: Row) -> Row:
    """Return a row with spaces in place of gaps, and a fault if a byte of it was not UTF-8."""
    is_invalid = INVALID in row.source or INVALID in row.target
    source, target = (
        _GAP.sub(_space, text).replace(GAP, "").replace(INVALID, "\ufffd").strip(" \t\r\n")
        for text in (row.source, row.target)
    )
    if is_invalid and row.fault is None:
        return Row(source, target, INVALID_UTF8, row.value)
    if row.fault is None and not (source and target):
        return Row(source, target, UNTRANSLATED)
    return row._replace(source=source, target=target)


def _space(match: re.Match[str]) -> str:
    return " " if is_gap(match[1], match[2]) else ""


def is_gap(before: str, after: str) -> bool:
    """Return True if a stand-alone code, such as a line break, separates two characters that would be one word.

    Scripts without spaces have none there either. An empty text stands for the end of the text, or for another code.
    """
    if not re.fullmatch(_ENDS, before) or not re.fullmatch(_BEGINS, after):
        return False
    return not UNSPACED_OR_WIDE.fullmatch(before) and not UNSPACED_OR_WIDE.fullmatch(after)
