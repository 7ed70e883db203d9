"""Parse XML as a stream of events, in the memory of one unit.

Nothing outside the file is loaded. A file that declares its own entities is rejected: a few lines of them can expand
to gigabytes. A bare `<!DOCTYPE tmx SYSTEM "tmx14.dtd">` is harmless and common. Control characters are common too,
although XML forbids them. They become DEL or a space, which cleaning treats in the same way.
"""

import re
from collections.abc import Iterator
from html.entities import html5
from typing import Protocol
from xml.parsers import expat

from nmt_core.errors import DataError
from nmt_core.formats.charsets import UTF_8, charset_of, in_utf8
from nmt_core.formats.rows import Row, Text
from nmt_core.formats.streams import ByteStream

_BLOCK_BYTES = 1 << 18
_MOST_BYTES_OF_A_TAG = 1 << 22

_DECLARED = re.compile(rb"""<\?xml(?=\s)[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")

_SPACES, _CONTROLS = b"\x0b\x0c", bytes(range(0x01, 0x09)) + bytes(range(0x0E, 0x20))
_ALLOWED = bytes.maketrans(_SPACES + _CONTROLS, b" " * len(_SPACES) + b"\x7f" * len(_CONTROLS))

INLINE_CODES = frozenset({"bpt", "ept", "it", "ph", "ut", "sub"})
"""Inline elements of TMX and XLIFF that hold mark-up of the original document, not text."""


class Handler(Protocol):
    """Protocol of the classes that turn the elements of a format into rows."""

    @property
    def hidden(self) -> frozenset[str]:
        """Elements to skip together with their content."""

    rows: list[Row]
    """Complete rows. The parser takes them and empties the list."""
    text: Text | None
    """Text that receives the characters. None discards them."""

    def start(self, element: str, attributes: dict[str, str]) -> None:
        """Handle the start of an element. Its name has no prefix."""

    def end(self, element: str) -> None:
        """Handle the end of an element."""


def parse(stream: ByteStream, handler: Handler) -> Iterator[Row]:
    """Yield the rows that the handler makes of a file.

    Raises:
        DataError: the XML is not well-formed, is truncated, or declares entities.
    """
    is_utf16 = b"\0" in stream.peek()[:4]
    if not is_utf16:
        stream = in_utf8(stream, _charset(stream))
    parser = _parser(stream.name, "utf-16" if is_utf16 else UTF_8, handler)
    fed = 0
    try:
        while block := stream.read(_BLOCK_BYTES):
            parser.Parse(block if is_utf16 else block.translate(_ALLOWED))
            fed += len(block)
            if fed - parser.CurrentByteIndex > _MOST_BYTES_OF_A_TAG:
                raise DataError(
                    f"{stream.name}, line {parser.CurrentLineNumber:,}: a tag without an end: repair the file"
                )
            yield from handler.rows
            handler.rows.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise DataError(
            f"{stream.name}: the XML is truncated or damaged ({error}): fetch it again, or repair that line"
        ) from None
    yield from handler.rows


def _charset(stream: ByteStream) -> str:
    """Return the charset of the file: the declared one, or UTF-8 if none is declared.

    The first bytes are ASCII, so a declared UTF-16, UTF-32 or UCS charset is wrong and is ignored.
    """
    head = stream.peek()
    declared = _DECLARED.match(head)
    if declared is None or declared[1].lower().startswith((b"utf-16", b"utf-32", b"ucs-", b"iso-10646-ucs-")):
        return UTF_8
    return charset_of(declared[1].decode(), stream.name)


def _parser(name: str, charset: str, handler: Handler) -> expat.XMLParserType:
    parser = expat.ParserCreate(charset)  # overrides the declaration: expat supports few charsets
    parser.buffer_text = True
    depth = 0  # nesting level inside a hidden element

    def start(element: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        local = element.rpartition(":")[2]
        if depth or local in handler.hidden:
            depth += 1
        else:
            handler.start(local, attributes)

    def end(element: str) -> None:
        nonlocal depth
        if depth:
            depth -= 1
        else:
            handler.end(element.rpartition(":")[2])

    def characters(data: str) -> None:
        if handler.text and not depth:
            handler.text.add(data)

    def skipped_entity(entity: str, is_parameter: bool) -> None:
        if not is_parameter:
            characters(html5.get(f"{entity};", f"&{entity};"))

    def declared_entity(entity: str, *_: object) -> None:
        raise DataError(
            f"{name}: declares the entity {entity!r}, which is not expanded: write the text itself in its place"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.SkippedEntityHandler = skipped_entity
    parser.EntityDeclHandler = declared_entity
    return parser
