"""Decode a document without losing a byte: encoding the text again gives the same bytes."""

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable

from nmt_core.errors import DataError
from nmt_core.formats.charsets import UTF_8, charset_of, shown_charset

_MARKS = {
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_ASCII = ("ascii", "us-ascii")
_HEAD = 1 << 14
MARK = "\ufeff"
"""Byte order mark, which stays in the text."""


def decoded(content: bytes, name: str, declared: str = "") -> tuple[str, str]:
    """Return the text of a document and its charset.

    A byte order mark stays in the text. In charsets that contain ASCII, bytes that are not in the charset become
    surrogates.

    Args:
        content: the document.
        name: name of the document, for errors.
        declared: charset that the document declares. Empty means UTF-8, unless the bytes show another.

    Raises:
        DataError: the charset is unknown, or the text cannot be decoded without loss.
    """
    charset = next((charset for mark, charset in _MARKS.items() if content.startswith(mark)), "")
    if not charset:
        shown = shown_charset(content[:_HEAD])
        charset = shown if shown != UTF_8 or not declared else charset_of(declared, name)
        if charset == UTF_8 and declared.casefold() in _ASCII:  # whatever is written must be ASCII too
            charset = "ascii"
    try:
        text = content.decode(charset, "strict" if charset.startswith(("utf-16", "utf-32")) else "surrogateescape")
        if text.encode(charset, "surrogateescape") == content:
            return text, charset
        problem = "its bytes cannot be restored from its text"
    except UnicodeError as error:
        problem = str(error)
    raise DataError(f"{name}: is not in {charset}, or cannot be kept as it is ({problem}): convert it to UTF-8")


def places_in(text: str) -> Callable[[int], str]:
    """Return a function that names the line of a position in a text."""
    ends = [match.start() for match in re.finditer("\n", text)]
    return lambda position: f"line {bisect_right(ends, position - 1) + 1}"


def newline_of(text: str) -> str:
    """Return the line end that a text uses."""
    return "\r\n" if "\r\n" in text else "\n"
