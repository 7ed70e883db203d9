"""Repair mojibake in one line: text whose bytes were decoded with the wrong table of characters.

Two kinds are repaired, in training text and in text to translate alike:

- UTF-8 that was read as Windows-1252 or Latin-1, Windows-1250, Latin-2 or Windows-1251 ("schÃ¶n", "pЕ™Г\xadliЕЎ")
- Windows-1252 that was read as Latin-1, which shows as C1 controls ("so \x93quoted\x94")

A repair is refused where it would bring in letters of a script that the line does not have: "groß“" is also the UTF-8
of a letter of N'Ko. Only whole words of another script are accepted, because mojibake of such a script is no accident.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

_MOST_LAYERS = 4
"""Maximum number of wrong decodings that are undone, one after the other."""

_WINDOWS_1252 = {number: bytes([number]).decode("cp1252", "ignore") for number in range(0x80, 0xA0)}
_C1 = {number: character for number, character in _WINDOWS_1252.items() if character}
_ANY_C1 = re.compile("[\x80-\x9f]")
_LATIN_2_C1 = re.compile("[\x80\x82\x84-\x87\x89-\x8f\x91-\x97\x99-\x9f]")
"""C1 controls that would be other characters if the table were Windows-1250."""

_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "KATAKANA-HIRAGANA", "FULLWIDTH"})
_OF_NO_SCRIPT = frozenset({"COMBINING", "FEMININE", "MASCULINE", "MICRO", "MODIFIER", "VARIATION", "UNKNOWN"})
_SHORTEST_WORD = 2

# A no-break space, the second half of an "à", has often become a plain space.
_A_GRAVE = ((re.compile("Ã (?= |$|quel[ea]|quilo|s\\b)"), "à"), (re.compile("Ã "), "à "))


@dataclass(frozen=True)
class _Table:
    """Table of characters by which UTF-8 was read: the byte of each character, and the shape of its mojibake."""

    byte_of: Mapping[str, int]
    sequence: re.Pattern[str]
    """One character of UTF-8: a lead byte and its continuation bytes, as this table shows them."""

    @staticmethod
    def of(codec: str, *others: str) -> "_Table":
        """Make the table of a codec. Bytes that it does not define, and C1 controls, are read in all known ways."""
        byte_of: dict[str, int] = {}
        for name in (codec, "latin-1", *others):
            for number in range(0x80, 0x100):
                if name == codec or number < 0xA0:
                    byte_of.setdefault(bytes([number]).decode(name, "ignore") or chr(number), number)
        lead2, lead3, lead4 = (_any(byte_of, *ends) for ends in ((0xC2, 0xDF), (0xE0, 0xEF), (0xF0, 0xF4)))
        more = _any(byte_of, 0x80, 0xBF)
        return _Table(byte_of, re.compile(f"{lead2}{more}|{lead3}{more}{{2}}|{lead4}{more}{{3}}"))

    def read(self, sequence: str) -> str | None:
        """Return the character that a sequence stands for, or None if it stands for none."""
        try:
            character = bytes(self.byte_of[shown] for shown in sequence).decode("utf-8")
        except UnicodeDecodeError:
            return None
        return None if unicodedata.category(character) == "Cn" else character


def _any(byte_of: Mapping[str, int], first: int, last: int) -> str:
    """Return a character class of the characters of a range of bytes."""
    return f"[{''.join(re.escape(character) for character, byte in byte_of.items() if first <= byte <= last)}]"


_WESTERN = _Table.of("cp1252")
_OTHERS = (
    _Table.of("cp1250", "cp1252"),
    _Table.of("cp1251", "cp1252"),
    _Table.of("iso8859-2", "cp1252", "cp1250"),
)

# Signs of mojibake are cheap to find, and rare in sound text, where `repair` decides. Leads of the 1250 table that are
# frequent in sound text ("íš") count only where another sequence follows; leads of the 1251 table likewise, or next to
# a letter of ASCII.
_MORE_1252 = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
_MORE_1250 = _MORE_1252 + "ŚŤŹśťźˇ˘ŁĄŞŻ˛łąşĽ˝ľżĽ"
_MORE_1251 = (
    "\u0080-\u009f\u00a4\u00a6-\u00a9\u00ab-\u00b1\u00b5-\u00b7\u00bbЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—™љ›њќћџЎўЈҐЁЄЇІіґё№єјЅѕї"
)
SIGN = (
    rf"[\u00c2-\u00f4][{_MORE_1252}]|Ã |[\u0080-\u009f]"
    rf"|[ĂĹ][{_MORE_1250}]|Ä[{_MORE_1250}]|(?:[ĐŃÎĎŘŮ×][{_MORE_1250}]){{2}}"
    rf"|[A-Za-z][ВГДЕ][{_MORE_1251}\u00a0]|[ВГДЕ][{_MORE_1251}\u00a0][A-Za-z]|(?:[В-Щ][{_MORE_1251}\u00a0]){{2}}"
    rf"|вЂ|(?:[г-й][{_MORE_1251}\u00a0]{{2}}){{2}}"
)
"""Regular expression that matches every line that `repair` changes, and few others. Python and polars read it alike."""

_SIGN = re.compile(SIGN)


def repair(line: str) -> str:
    """Return the line with its mojibake resolved, however many times it was decoded wrongly. C1 controls are left
    only where Windows-1252 does not define them.
    """
    for _ in range(_MOST_LAYERS):
        if not _SIGN.search(line):
            break
        repaired = _repair_once(line)
        if repaired == line:
            break
        line = repaired
    return line


def _repair_once(line: str) -> str:
    has_c1 = bool(_ANY_C1.search(line))
    likely = reversed(_OTHERS) if _LATIN_2_C1.search(line) else _OTHERS
    candidates = [_decoded(line, table) for table in likely if _is_certain(line, table)]
    if candidates := [text for text in candidates if text != line]:
        return min(candidates, key=_oddities)  # of equal ones the first
    line = line.translate(_C1) if has_c1 else line
    return _decoded(_with_a_grave(line), _WESTERN) if _is_bad(line) else line


def _with_a_grave(line: str) -> str:
    for pattern, replacement in _A_GRAVE:
        line = pattern.sub(replacement, line)
    return line


@cache
def _badness() -> re.Pattern[str]:
    from ftfy.badness import BADNESS_RE

    return BADNESS_RE


def _is_bad(line: str) -> bool:
    """Return True if a line holds a combination of characters of Windows-1252 that sound text does not have."""
    return bool(_badness().search(line))


def _decoded(line: str, table: _Table) -> str:
    """Return the line with all sequences decoded, except letters of a script that the line does not have."""
    repairs = [(match, table.read(match[0])) for match in table.sequence.finditer(line)]
    whole = _replaced(line, repairs, frozenset())
    new = set(_scripts(whole)) - set(_scripts(line))
    refused = frozenset(script for script in new if not _is_written_in(whole, script))
    return _replaced(line, repairs, refused) if refused else whole


def _replaced(line: str, repairs: list[tuple[re.Match[str], str | None]], refused: frozenset[str]) -> str:
    parts, last = [], 0
    for match, character in repairs:
        if character is not None and not refused.intersection(_scripts(character)):
            parts += [line[last : match.start()], character]
            last = match.end()
    return "".join([*parts, line[last:]])


def _scripts(text: str) -> Iterator[str]:
    """Yield the script of each letter, and of the marks and signs that only one script has."""
    for character in text:
        if character.isalpha() or "\u0370" <= character < "\u2000" or unicodedata.category(character)[0] == "M":
            script = unicodedata.name(character, "UNKNOWN").partition(" ")[0]
            if script not in _OF_NO_SCRIPT:
                yield "EAST ASIAN" if script in _EAST_ASIAN else script


def _is_written_in(line: str, script: str) -> bool:
    """Return True if a script has a word in the line, or most of its letters. A letter by itself may be an accident.

    A letter of East Asia is a word, and a sequence of three bytes is no accident twice.
    """
    letters, own, in_a_row = 0, 0, 0
    for character in line:
        script_of_letter = next(_scripts(character), None)
        letters += script_of_letter is not None
        own += script_of_letter == script
        in_a_row = in_a_row + 1 if script_of_letter == script else 0
        if in_a_row >= _SHORTEST_WORD or (script == "EAST ASIAN" and own >= _SHORTEST_WORD):
            return True
    return own * 2 > letters


def _is_certain(line: str, table: _Table) -> bool:
    """Return True if every letter beyond ASCII is part of a sequence, and one of them breaks the form of a word.

    Letters of the tables other than Windows-1252 are frequent in sound text, so both is required.
    """
    last, is_odd = 0, False
    for match in table.sequence.finditer(line):
        if table.read(match[0]) is None or not _is_plain(line[last : match.start()]):
            return False
        is_odd = is_odd or _breaks_word(line, match.start(), match.end())
        last = match.end()
    return is_odd and _is_plain(line[last:])


def _oddities(line: str) -> int:
    """Return the number of capitals behind small letters. Tables differ in which letter a byte is, not in its shape."""
    odd = sum(left.islower() and right.isupper() for left, right in pairwise(line))
    return odd + sum("\x80" <= character <= "\x9f" or not character.isprintable() for character in line)


def _is_plain(text: str) -> bool:
    return text.isascii() or not any(character.isalpha() and not character.isascii() for character in text)


def _breaks_word(line: str, start: int, end: int) -> bool:
    """Return True if a sequence has a form that words do not have: aBc, ABc, a symbol between letters, two scripts."""
    before, after, own = line[max(start - 1, 0) : start], line[end : end + 1], line[start:end]
    if before.islower() and any(character.isupper() for character in own):
        return True
    if any(left.islower() and right.isupper() for left, right in pairwise(own)):
        return True
    if after.islower() and any(character.isupper() for character in own[1:]):
        return True
    if own[0].isalpha() and not own[1:].isalpha() and after.isalpha():
        return True
    return own[0] >= "\u0370" and any(beside.isascii() and beside.isalpha() for beside in (before, after))
