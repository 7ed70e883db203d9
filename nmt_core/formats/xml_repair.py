"""Repair the characters and entities of XML, so that the parser meets only faults of its tags.

A character that XML forbids becomes DEL or a space, which cleaning treats like the character itself, whether it is
written as it is or as a reference (`&#x1E;`). A bare `&` or `<` becomes text, as does an entity that nothing declares,
unless HTML has a character of that name. Two references to the halves of a surrogate pair become the character. A byte
that is not UTF-8 becomes `INVALID`, which marks its unit.
"""

import re
from html.entities import html5

INVALID = "\ufdd1"
"""Noncharacter in place of a byte that is not UTF-8."""
GAP = "\ufdd0"
"""Noncharacter in place of a code that stands alone in a text."""

_DEL = b"\x7f"
_SPACES, _CONTROLS = b"\x0b\x0c", bytes(range(0x09)) + bytes(range(0x0E, 0x20))
_ALLOWED = bytes.maketrans(_SPACES + _CONTROLS, b" " * len(_SPACES) + _DEL * len(_CONTROLS))
# U+FDD0 to U+FDEF, and the last two code points of each plane.
_NONCHARACTERS = re.compile(rb"\xef\xb7[\x90-\xaf]|\xef\xbf[\xbe\xbf]|[\xf0-\xf4][\x80-\xbf]\xbf[\xbe\xbf]")
_AMPERSAND = re.compile(
    rb"&(?!(?:amp|lt|gt|quot|apos);)(?:#(?:[xX][0-9A-Fa-f]{1,8}|[0-9]{1,10});|[A-Za-z][A-Za-z0-9]{1,31};)?"
    rb"(?:(?<=;)&#(?:[xX][dD][c-fC-F][0-9A-Fa-f]{2}|5[67][0-9]{3});)?"
)
_REFERENCE_BEFORE = re.compile(rb"&#[0-9A-Za-z]{1,8};$")
_BARE_LESS_THAN = re.compile(rb"<(?![A-Za-z_:/!?\x80-\xff])")
_SECTION = re.compile(rb"<!\[CDATA\[|<!--|<\?|<!DOCTYPE", re.IGNORECASE)
_DECLARATION = re.compile(rb"<\?xml(?=\s)")
_END_OF = {b"<![": b"]]>", b"<!-": b"-->", b"<?": b"?>"}
_LONGEST = 96
"""Number of bytes after a `&` or `<` that may belong to what it begins, as far as it matters here."""


class Repairer:
    """Repairer of the bytes of one file, which come in blocks of any size. They are UTF-8, with faults."""

    def __init__(self) -> None:
        self._held = b""
        self._is_begun = False
        self._end = b""
        """End of the section that the next bytes are in, such as `]]>`. Empty outside of sections."""

    def repair(self, block: bytes, *, is_last: bool = False) -> bytes:
        """Return repaired bytes. The last few bytes of the block may come with the next one."""
        held, self._held = self._held + block, b""
        if not is_last:
            cut = self._safe_end(held)
            held, self._held = held[:cut], held[cut:]
        text = _characters(held)
        if not self._is_begun:
            text = text.lstrip()
        repaired = self._sections(text)
        self._is_begun |= bool(text)
        return repaired

    def _safe_end(self, held: bytes) -> int:
        """Return the end of the bytes that are not part of something that continues in the next block."""
        cut = len(held)
        for start in range(max(0, cut - 4), cut):
            if held[start] >= 0xC0:  # it may begin a character of up to four bytes
                cut = start
                break
        if self._end:
            return max(0, cut - len(self._end) + 1)
        last = max(held.rfind(b"&", max(0, cut - _LONGEST), cut), held.rfind(b"<", max(0, cut - _LONGEST), cut))
        if last < 0:
            return cut
        if held[last : last + 1] == b"&" and (half := _REFERENCE_BEFORE.search(held, max(0, last - 12), last)):
            return half.start()  # both may be halves of a surrogate pair
        return last

    def _sections(self, text: bytes) -> bytes:
        """Repair references outside of comments, CDATA sections and instructions."""
        if not self._end and b"<!" not in text and b"<?" not in text:
            return _references(text)
        parts, position = [], 0
        while position < len(text):
            if self._end:
                end = text.find(self._end, position)
                end = len(text) if end < 0 else end + len(self._end)
                if text.endswith(self._end, position, end):
                    self._end = b""
                parts.append(text[position:end])
                position = end
                continue
            section = _SECTION.search(text, position)
            begin = section.start() if section else len(text)
            parts.append(_references(text[position:begin]))
            position = begin
            if section and _DECLARATION.match(text, begin) and (self._is_begun or text[:begin].strip()):
                parts.append(b"<?xml-again")  # only the first is a declaration, and only at the beginning
                self._end, position = b"?>", begin + len(b"<?xml")
            elif section:
                self._end = next((end for sign, end in _END_OF.items() if section[0].startswith(sign)), b">")
                parts.append(section[0])
                position = section.end()
        return b"".join(parts)


def _characters(text: bytes) -> bytes:
    """Return the bytes without characters that XML forbids, in valid UTF-8."""
    text = text.translate(_ALLOWED)
    if text.isascii():
        return text
    if b"\xef" in text or b"\xf0" in text or b"\xf3" in text or b"\xf4" in text:
        text = _NONCHARACTERS.sub(_DEL, text)
    try:
        text.decode()
    except UnicodeDecodeError:
        # Valid text cannot hold U+DC80 to U+DCFF, so each of these is a byte that is not UTF-8.
        lenient = text.decode("utf-8", "surrogateescape")
        return re.sub("[\udc80-\udcff]+", INVALID, lenient).encode()
    return text


def _references(text: bytes) -> bytes:
    if b"&" in text:
        text = _AMPERSAND.sub(_reference, text)
    return _BARE_LESS_THAN.sub(b"&lt;", text)


def _reference(match: re.Match[bytes]) -> bytes:
    """Return a repaired reference, in which the parser finds no fault."""
    reference = match[0]
    name, _, following = reference[1:].partition(b";")
    if not name:
        return b"&amp;"
    if not name.startswith(b"#"):
        text = html5.get(f"{name.decode()};")
        inner = text.encode() if text else b"&amp;" + name + b";"
        return inner.replace(b"<", b"&lt;") + _again(following)
    code = _code(name)
    if following and 0xD800 <= code < 0xDC00:
        low = _code(following.strip(b"&;"))
        return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)).encode()
    is_allowed = code in (0x9, 0xA, 0xD) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0x110000
    is_character = is_allowed and not 0xFDD0 <= code < 0xFDF0 and code & 0xFFFE != 0xFFFE
    return (b"&#%d;" % code if is_character else b" " if code in (0xB, 0xC) else _DEL) + _again(following)


def _again(following: bytes) -> bytes:
    return _AMPERSAND.sub(_reference, following) if following else b""


def _code(name: bytes) -> int:
    digits = name[1:]
    return int(digits[1:], 16) if digits[:1] in b"xX" else int(digits)
