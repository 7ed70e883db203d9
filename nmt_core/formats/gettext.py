"""Read translations of programs: gettext PO and MO.

The source is the msgid and the target the msgstr. An entry with plural forms gives a pair for each form of the msgstr:
the form for one thing belongs to the msgid, the others to the msgid_plural. A language with one form for all numbers
has it in both pairs.
"""

import contextlib
import gettext
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import polars as pl

from nmt_core.errors import DataError
from nmt_core.formats.charsets import UTF_8, charset_of, in_utf8
from nmt_core.formats.languages import direction
from nmt_core.formats.layout import Layout
from nmt_core.formats.lines import read_lines
from nmt_core.formats.rows import INVALID_UTF8, MISSING_LANGUAGE, Row, Text, explain_invalid, frames_of, row_of
from nmt_core.formats.streams import ByteStream

FUZZY, OBSOLETE, INVALID_PO = "fuzzy", "obsolete", "invalid_po"

_T = TypeVar("_T")

_MOST_BYTES = 1 << 27
_FIELD = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr|domain)(?:\[(\d+)\])?\s*"(.*)"')
_MORE = re.compile(r'"(.*)"')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CHARSET = re.compile(r"charset=([\w.:-]+)")
_LANGUAGE = re.compile(r"^Language:[ \t]*(\S*)", re.MULTILINE)
_PLURAL = re.compile(r"^Plural-Forms:.*?plural=([^;\n]+)", re.MULTILINE)


def read_po(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield a pair for each entry except the header.

    See `reader.read` for the tables and errors.
    """
    text = in_utf8(stream, charset_in_header(stream.peek().decode("latin-1"), stream.name))
    yield from frames_of(_Entries(layout).of(text), layout.max_line_bytes)


def read_mo(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield a pair for each entry except the header.

    See `reader.read` for the tables and errors.
    """
    yield from frames_of(_mo_rows(stream, layout), layout.max_line_bytes)


def charset_in_header(header: str, place: str) -> str:
    """Return the charset that the header of a PO or MO file states, or UTF-8.

    Raises:
        DataError: the charset is unknown.
    """
    match = _CHARSET.search(header)
    # Templates contain the placeholder CHARSET.
    return charset_of(match[1], place) if match and match[1] != "CHARSET" else UTF_8


@dataclass(frozen=True)
class Header:
    """Facts that the header of a PO or MO file states."""

    language: str = ""
    """Language of the msgstr. Empty means that it is not named."""
    singular: int = 0
    """Number of the plural form for one thing."""

    @classmethod
    def read(cls, header: str) -> "Header":
        """Return the facts of a header."""
        language, plural = _LANGUAGE.search(header), _PLURAL.search(header)
        singular = 0
        if plural:
            with contextlib.suppress(ValueError, RecursionError, ZeroDivisionError, TypeError):  # of a wrong formula
                singular = int(gettext.c2py(plural[1].strip())(1))
        return cls(language[1] if language else "", singular)

    def pairs(self, singular: _T, plural: _T | None, forms: Sequence[_T]) -> Iterator[tuple[_T, _T | None]]:
        """Yield each form of the msgstr with the form of the msgid that it translates."""
        if plural is None or not forms:
            yield singular, forms[0] if forms else None
        elif len(forms) == 1:
            yield from ((source, forms[0]) for source in (singular, plural))
        else:
            for number, form in enumerate(forms):
                yield singular if number == self.singular else plural, form


@dataclass
class _Entry:
    """The part of a PO entry that has been read so far. `forms` holds the msgstr, or its plural forms by number."""

    fields: dict[str, Text] = field(default_factory=dict)
    forms: dict[int, Text] = field(default_factory=dict)
    obsolete: bool = False
    fuzzy: bool = False
    fault: str | None = None
    value: str | None = None


class _Entries:
    """Parser for the entries of a PO file."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._entry = _Entry()
        self._field: Text | None = None
        self._header: Header | None = None

    def of(self, stream: ByteStream) -> Iterator[Row]:
        """Yield all entries of a stream."""
        number = 0
        for table in read_lines(stream, self._layout.max_line_bytes):
            for text, fault, value in table.iter_rows():
                number += 1
                yield from self._read(text.strip(), number)
                if fault and not self._entry.fault:
                    self._entry.fault, self._entry.value = fault, value
        yield from self._finish()

    def _read(self, line: str, number: int) -> Iterator[Row]:
        obsolete = line.startswith("#~") and not line.startswith("#~|")  # `#~|` is a comment with the previous msgid
        content = line.removeprefix("#~").lstrip() if obsolete else line
        match = _FIELD.fullmatch(content)
        ends_here = not content or content.startswith("#") or (match and match[1] in ("msgctxt", "msgid", "domain"))
        if ends_here and (self._entry.forms or not content):
            yield from self._finish()
        if match:
            self._begin(match[1], match[2], obsolete)
            self._add(match[3])
        elif more := _MORE.fullmatch(content):
            self._add(more[1])
        elif content.startswith("#,"):
            self._entry.fuzzy |= "fuzzy" in content
        elif content and not content.startswith("#"):
            self._entry.fault, self._entry.value = INVALID_PO, f"line {number}"

    def _begin(self, name: str, form: str | None, obsolete: bool) -> None:
        self._field = Text(self._layout.max_line_bytes)
        if name == "msgstr":
            self._entry.forms[int(form or 0)] = self._field
        else:
            self._entry.fields[name] = self._field
        self._entry.obsolete |= obsolete

    def _add(self, escaped: str) -> None:
        if self._field:
            self._field.add(unescaped(escaped))

    def _finish(self) -> Iterator[Row]:
        entry, self._entry, self._field = self._entry, _Entry(), None
        source, plural = entry.fields.get("msgid"), entry.fields.get("msgid_plural")
        forms = [entry.forms[number] for number in sorted(entry.forms)]
        if self._header is None and source and not str(source) and "msgctxt" not in entry.fields:
            self._header = Header.read(str(forms[0]) if forms else "")
        elif entry.fault or source or forms:
            fault, value = entry.fault, entry.value
            if fault is None and (entry.obsolete or entry.fuzzy):
                fault = OBSOLETE if entry.obsolete else FUZZY
            header = self._header or Header()
            for one, form in header.pairs(source, plural, forms):
                yield _directed(one, form, header.language, self._layout, fault, value)


def unescaped(text: str) -> str:
    """Return the text between two quotes of a PO file without its escapes."""
    return _ESCAPE.sub(_unescape, text)


def _unescape(escape: re.Match[str]) -> str:
    code = escape[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16)) if code[0] == "x" and len(code) > 1 else _ESCAPED.get(code, code)


def _directed(
    source: Text | None, target: Text | None, language: str, layout: Layout, fault: str | None, value: str | None
) -> Row:
    """Return the pair in the corpus's direction, which the language of the msgstr decides."""
    way = direction("", language, layout)
    if way == "other" and fault is None:
        fault, value = MISSING_LANGUAGE, language
    return row_of(target, source, fault, value) if way == "backward" else row_of(source, target, fault, value)


def _mo_rows(stream: ByteStream, layout: Layout) -> Iterator[Row]:
    content = stream.read_whole(_MOST_BYTES)
    order = "<" if content.startswith(b"\xde") else ">"
    try:
        count, originals, translations = struct.unpack_from(f"{order}3I", content, 8)
        tables = [struct.unpack_from(f"{order}{2 * count}I", content, start) for start in (originals, translations)]
    except struct.error as error:
        raise DataError(f"{stream.name}: the MO file is truncated or damaged ({error}): fetch it again") from None
    charset, header = UTF_8, Header()
    for number in range(count):
        raw = []
        for table in tables:
            length, start = table[2 * number : 2 * number + 2]
            if start + length > len(content):
                raise DataError(f"{stream.name}: the MO file is truncated or damaged: fetch it again")
            raw.append(content[start : start + length].split(b"\0"))
        if not raw[0][0]:  # the header, which sorts first
            text = raw[1][0].decode("utf-8", "replace")
            charset, header = charset_in_header(text, stream.name), Header.read(text)
            continue
        raw[0][0] = raw[0][0].rpartition(b"\x04")[2]  # without its context
        singular, *plural = raw[0]
        for source, target in header.pairs(singular, plural[0] if plural else None, raw[1]):
            yield _decoded(source, target or b"", charset, header.language, layout)


def _decoded(source: bytes, target: bytes, charset: str, language: str, layout: Layout) -> Row:
    """Return the pair of two texts of an MO file."""
    sides, fault, value = [Text(layout.max_line_bytes) for _ in range(2)], None, None
    for side, text in zip(sides, (source, target), strict=True):
        try:
            side.add(text.decode(charset))
        except UnicodeDecodeError as error:
            side.add(text.decode("utf-8", "replace"))
            fault, value = INVALID_UTF8, explain_invalid(error)
    return _directed(sides[0], sides[1], language, layout, fault, value)
