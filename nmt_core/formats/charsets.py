"""Convert text to UTF-8: in the charset that its format declares, that the recipe names, or that the bytes show.

A byte that is not in the charset costs its line or unit only: it stays in the converted text as an invalid byte.
"""

import codecs

from nmt_core.errors import DataError
from nmt_core.formats import signatures
from nmt_core.formats.streams import HEAD_BYTES, ByteStream, Readable

UTF_8 = "utf-8"

_MARKS = {
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_MO = (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde")
_BINARY = (*_MO, *(magic for magics in signatures.FILES.values() for magic in magics))
_TAR_MAGIC_AT = 257
_COMMON = " \n\r\t"
_FEWEST_COMMON = 0.005  # of all characters, in text of any language that is in UTF-16
_MANY_NULS = 0.2  # of the bytes: half of them in most alphabets
_NULS_OF_UTF_32 = 0.24  # each unit has one or more, since Unicode ends at 0x10FFFF
_CONTROLS = bytes(set(range(1, 32)) - set(b"\t\n\r"))
_MANY_CONTROLS = 0.1  # of the bytes: Thai in UTF-16 has one in each letter, and no byte above 0x7F
_MOST_STRAYS = (8, 4, 0.02)  # in all, to each line end, or to each character
_KEEP = "nmt_keep"  # error handler


def charset_of(name: str, place: str, remedy: str = "in the header: convert the file to UTF-8") -> str:
    """Return Python's name of a charset. ASCII is reported as UTF-8, its superset.

    Raises:
        DataError: the charset is unknown. The message ends with the remedy.
    """
    try:
        "".encode(name)  # unlike `lookup`, this rejects codecs that are not charsets
        charset = codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise DataError(f"{place}: unknown charset {name!r} {remedy}") from None
    return UTF_8 if charset in ("ascii", "utf-8-sig") else charset


def shown_charset(head: bytes) -> str:
    """Return the charset that the first bytes of a file show: UTF-16 or UTF-32, or else UTF-8 for all others."""
    for mark, charset in _MARKS.items():
        if head.startswith(mark):
            return charset
    if b"\0" not in head or head.startswith(_BINARY) or head[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return UTF_8
    has_many = head.count(b"\0") > _MANY_NULS * len(head)
    if not has_many and (head.count(b"\0") < 2 or _is_utf_8(head)):  # UTF-8 with a few NUL characters
        return UTF_8
    wide = ("utf-32-le", "utf-32-be") if head.count(b"\0") > _NULS_OF_UTF_32 * len(head) else ()
    shares = {charset: _share_of_common(head, charset) for charset in (*wide, "utf-16-le", "utf-16-be")}
    likelier = max(shares, key=shares.__getitem__)
    return likelier if shares[likelier] > _FEWEST_COMMON else UTF_8


def _is_utf_8(head: bytes) -> bool:
    """Return True if this is text in UTF-8, in which control characters are rare."""
    if len(head) - len(head.translate(None, _CONTROLS)) > _MANY_CONTROLS * len(head):
        return False
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(head)
    except UnicodeError:
        return False
    return True


def _share_of_common(head: bytes, charset: str) -> float:
    """Return the share of spaces and line ends, or 0 if the bytes are not text in that charset."""
    try:
        text = codecs.getincrementaldecoder(charset)().decode(head)
    except UnicodeError:
        return 0.0
    if not text or "\0" in text or any(character in "\ufffe\uffff" for character in text):
        return 0.0
    width = 4 if charset.startswith("utf-32") else 2
    low_bytes = head[0 if charset.endswith("le") else width - 1 :: width]
    ends = text.count("\n")
    strays = low_bytes.count(b"\n") - ends  # letters such as 上 (U+4E0A), unless some bytes of lines are NUL
    if strays > max(most * number for most, number in zip(_MOST_STRAYS, (1, ends, len(text)), strict=True)):
        return 0.0
    return sum(map(text.count, _COMMON)) / len(text)


def decoded(stream: ByteStream, encoding: str = "") -> ByteStream:
    """Return a stream of the same text in UTF-8 with "\\n" at the end of each line, or the stream itself if it is that.

    Args:
        stream: text, or a binary file, which is returned unchanged.
        encoding: charset that the recipe names. Empty means the one that the bytes show.

    Raises:
        DataError: the charset is unknown.
    """
    head = stream.peek()
    if head.startswith(_BINARY) or head[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return stream
    charset = (
        charset_of(encoding, stream.name, "in `encoding`: correct it in the recipe")
        if encoding
        else shown_charset(head)
    )
    text = in_utf8(stream, charset)
    text.is_decoded = bool(encoding) or charset != UTF_8
    head = text.peek()
    if b"\r" in head[:-1] and b"\n" not in head:  # as old programs for the Macintosh end lines
        is_decoded, text = text.is_decoded, ByteStream(stream.name, _Newlines(text))
        text.is_decoded = is_decoded
    return text


def in_utf8(stream: ByteStream, charset: str) -> ByteStream:
    """Return a stream of the same text in UTF-8, or the stream itself if it is in UTF-8 already."""
    return stream if charset == UTF_8 or stream.is_decoded else ByteStream(stream.name, _Transcoded(stream, charset))


class _Newlines:
    """A reader that turns each carriage return into a newline."""

    def __init__(self, source: Readable) -> None:
        self._source = source
        self._ends_with_return = False

    def read(self, size: int, /) -> bytes:
        block = self._source.read(size)
        if self._ends_with_return and block.startswith(b"\n"):
            block = block[1:] or self._source.read(size)
        self._ends_with_return = block.endswith(b"\r")
        return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class _Transcoded:
    """A reader that converts bytes in another charset to UTF-8."""

    def __init__(self, stream: ByteStream, charset: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(charset)(_KEEP)

    def read(self, size: int, /) -> bytes:
        text = ""
        while not text and (block := self._stream.read(min(size, HEAD_BYTES * 4))):
            text = self._decoder.decode(block)
        return (text or self._decoder.decode(b"", True)).encode("utf-8", "surrogateescape")


def _keep(error: UnicodeError) -> tuple[str, int]:
    """Keep the first byte that cannot be decoded as an invalid byte of the result. In UTF-16, the whole unit is one."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    byte = error.object[error.start]
    is_wide = error.encoding.startswith(("utf-16", "utf-32", "utf16", "utf32"))
    return chr(0xDC00 + byte) if byte > 0x7F else "\udcff", error.end if is_wide else error.start + 1


codecs.register_error(_KEEP, _keep)
