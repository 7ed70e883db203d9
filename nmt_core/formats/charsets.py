"""Texts in other charsets than UTF-8, for the formats that say which they are in."""

import codecs

from nmt_core.errors import DataError
from nmt_core.formats.streams import ByteStream

UTF_8 = "utf-8"


def charset_of(name: str, place: str) -> str:
    """Python's name of a charset; of ASCII, that of UTF-8, which is the same and more.

    Raises:
        DataError: there is no such charset.
    """
    try:
        "".encode(name)  # unlike `lookup`, it refuses codecs that are no charsets
        found = codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise DataError(f"{place}: unknown charset {name!r} in the header: convert the file to UTF-8") from None
    return UTF_8 if found in ("ascii", "utf-8-sig") else found


def in_utf8(stream: ByteStream, charset: str) -> ByteStream:
    """The same text in UTF-8; it is the stream itself if that is so already."""
    return stream if charset == UTF_8 else ByteStream(stream.name, _Transcoded(stream, charset))


class _Transcoded:
    """Bytes in another charset as UTF-8."""

    def __init__(self, stream: ByteStream, charset: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(charset)()

    def read(self, size: int, /) -> bytes:
        text = ""
        while not text and (block := self._stream.read(size)):
            text = self._decode(block)
        return (text or self._decode(b"", final=True)).encode("utf-8", "replace")

    def _decode(self, block: bytes, *, final: bool = False) -> str:
        try:
            return self._decoder.decode(block, final)
        except UnicodeError as error:
            raise DataError(
                f"{self._stream.name}: not in the charset that its header names ({error}): correct it, or convert the "
                "file to UTF-8"
            ) from None
