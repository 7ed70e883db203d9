"""Convert text to UTF-8, for the formats that declare their charset."""

import codecs

from nmt_core.errors import DataError
from nmt_core.formats.streams import ByteStream

UTF_8 = "utf-8"


def charset_of(name: str, place: str) -> str:
    """Return Python's name of a charset. ASCII is reported as UTF-8, its superset.

    Raises:
        DataError: the charset is unknown.
    """
    try:
        "".encode(name)  # unlike `lookup`, this rejects codecs that are not charsets
        found = codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise DataError(f"{place}: unknown charset {name!r} in the header: convert the file to UTF-8") from None
    return UTF_8 if found in ("ascii", "utf-8-sig") else found


def in_utf8(stream: ByteStream, charset: str) -> ByteStream:
    """Return a stream of the same text in UTF-8, or the stream itself if it is in UTF-8 already."""
    return stream if charset == UTF_8 else ByteStream(stream.name, _Transcoded(stream, charset))


class _Transcoded:
    """A reader that converts bytes in another charset to UTF-8."""

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
