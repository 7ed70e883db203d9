"""Collect the text and the tags of a segment as a parser finds them."""

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from nmt_core.documents.document import Role, Segment, Tag
from nmt_core.formats.markup import is_gap
from nmt_core.formats.rows import INVALID_UTF8

SPACE = " \t\r\n\f"
_DEEPEST = 100
_SPACES = re.compile(rf"[{SPACE}]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Built(NamedTuple):
    """Segment, and the part of the document that holds it."""

    segment: Segment
    start: int
    end: int


@dataclass(frozen=True)
class _Item:
    """Text or a tag between two places of the document."""

    start: int
    end: int
    text: str = ""
    """Text without escapes. For a `kept` tag, the text that it covers."""
    role: Role | None = None
    """Role of a tag. None means text."""
    markup: str = ""
    key: Hashable = None
    is_break: bool = False
    is_glued: bool = False

    @property
    def is_blank(self) -> bool:
        return self.role is None and not self.text.strip(SPACE)


class Builder:
    """Builder of one segment. Every place between two items belongs to an item.

    Args:
        document: the whole text of the document.
        place: function that returns the name of a place of the document.
    """

    def __init__(self, document: str, place: Callable[[int], str]) -> None:
        self._document = document
        self._place = place
        self._items: list[_Item] = []
        self.in_order = False
        """True if the tags must keep their order."""

    def add_text(self, start: int, end: int, text: str) -> None:
        """Add text. `text` has no escapes."""
        if end > start:
            self._items.append(_Item(start, end, text))

    def add_tag(
        self,
        start: int,
        end: int,
        role: Role,
        key: Hashable = None,
        *,
        markup: str | None = None,
        is_break: bool = False,
        is_glued: bool = False,
    ) -> None:
        """Add a tag.

        Args:
            start: its position in the document.
            end: position after its last character.
            role: its role.
            key: name that the two tags of a pair share.
            markup: mark-up to write. None means as in the document.
            is_break: True if it takes the place of the space between two words.
            is_glued: True if words on both sides of a tag that stands alone are one word.
        """
        own = self._document[start:end] if markup is None else markup
        self._items.append(_Item(start, end, "", role, own, key, is_break, is_glued))

    def add_kept(self, start: int, end: int, shown: str) -> None:
        """Add text that must stay as it is, with its tags. `shown` is the text alone."""
        self._items.append(_Item(start, end, _SPACES.sub(" ", shown).strip(), "kept", self._document[start:end]))

    @property
    def is_empty(self) -> bool:
        """True if nothing was added."""
        return not self._items

    def built(self) -> Built | None:
        """Return the segment and begin a new one. None means that there is nothing to translate.

        White space and tags around the whole text stay outside of the segment.
        """
        items, in_order = self._items, self.in_order
        self._items, self.in_order = [], False
        pairs, is_nested = _pairs(items)
        first, last = _trimmed(items, pairs)
        own = items[first : last + 1]
        if not any(character.isalpha() for item in own if not item.role for character in item.text):
            return None
        text, tags = _assembled(own, {one - first: other - first for one, other in pairs.items()})
        start = own[0].start + self._blank(own[0], lambda raw: len(raw) - len(raw.lstrip(SPACE)))
        end = own[-1].end - self._blank(own[-1], lambda raw: len(raw) - len(raw.rstrip(SPACE)))
        fault = INVALID_UTF8 if _SURROGATE.search(text) else None
        shown = _SURROGATE.sub("\ufffd", text)
        return Built(Segment(shown, self._place(start), tuple(tags), fault, in_order or not is_nested), start, end)

    def _blank(self, item: _Item, count: Callable[[str], int]) -> int:
        """Return the number of characters of white space at an end of an item of text."""
        return 0 if item.role else count(self._document[item.start : item.end])


def _pairs(items: list[_Item]) -> tuple[dict[int, int], bool]:
    """Return the numbers of tags that belong together, both ways, and whether all pairs are nested.

    Pairs that are nested too deeply are no pairs: their tags keep their order.
    """
    opened: list[int] = []
    pairs: dict[int, int] = {}
    is_nested, deepest = True, 0
    for number, item in enumerate(items):
        if item.role == "open":
            opened.append(number)
            deepest = max(deepest, len(opened))
        elif item.role == "close":
            if opened and items[opened[-1]].key == item.key:
                other = opened.pop()
                pairs[other], pairs[number] = number, other
            else:
                is_nested = False
    return (pairs, is_nested and not opened) if deepest <= _DEEPEST else ({}, False)


def _trimmed(items: list[_Item], pairs: dict[int, int]) -> tuple[int, int]:
    """Return the first and the last item of the text, without the tags and the white space around it."""
    first, last = 0, len(items) - 1
    while first <= last:
        head, tail = items[first], items[last]
        if head.is_blank or head.role == "alone" or (head.role in ("open", "close") and first not in pairs):
            first += 1
        elif tail.is_blank or tail.role == "alone" or (tail.role in ("open", "close") and last not in pairs):
            last -= 1
        elif head.role == "open" and pairs.get(first) == last:
            first, last = first + 1, last - 1
        elif head.role == "open" and not _has_text(items[first : pairs[first]]):
            first = pairs[first] + 1
        elif tail.role == "close" and not _has_text(items[pairs[last] : last]):
            last = pairs[last] - 1
        else:
            break
    return first, last


def _has_text(items: list[_Item]) -> bool:
    return any(item.role == "kept" or (item.role is None and not item.is_blank) for item in items)


def _assembled(items: list[_Item], pairs: dict[int, int]) -> tuple[str, list[Tag]]:
    """Return the text of items, with one space for each white space, and its tags."""
    text = ""
    tags: list[Tag] = []
    numbers: dict[int, int] = {}
    spaced = _spaced(items)
    for number, item in enumerate(items):
        if item.role is None or item.role == "kept":
            own = _SPACES.sub(" ", item.text)
            if not text:
                own = own.lstrip(" ")
            if item.role:
                tags.append(Tag(item.markup, "kept", len(text), shown=own))
                text += own
            else:
                text += own.removeprefix(" ") if text.endswith(" ") else own
            continue
        before = _text_at(items, number - 1)[-1:]
        after = _text_at(items, number + 1)[:1]
        tag = Tag(item.markup, item.role, len(text))
        if item.role == "alone":
            tag = tag._replace(before=spaced[number][0], after=spaced[number][1])
            parts_words = not item.is_glued and is_gap(before, after)
            if (item.is_break or parts_words) and text and not text.endswith(" "):
                text += " "
            tag = tag._replace(is_break=item.is_break)
        if number in pairs:
            numbers[number] = len(tags)
        tags.append(tag)
    text = text.rstrip(" ")
    tags = [tag._replace(at=min(tag.at, len(text))) for tag in tags]
    for number, place in numbers.items():
        tags[place] = tags[place]._replace(partner=numbers[pairs[number]])
    return text, tags


def _spaced(items: list[_Item]) -> list[tuple[bool, bool]]:
    """Return whether white space comes before and after each item.

    Tags between a tag and white space do not count if text comes first on the other side: a note behind a word may be
    followed by the end of a comment. Of tags between two spaces, one alone counts as having space on both sides.
    """
    count = len(items)
    direct = [
        (_is_space(_text_at(items, number - 1)[-1:]), _is_space(_text_at(items, number + 1)[:1]))
        for number in range(count)
    ]
    before, after = [False] * count, [False] * count
    for number in range(1, count):
        text = _text_at(items, number - 1)
        before[number] = _is_space(text[-1:]) if text else before[number - 1]
    for number in reversed(range(count - 1)):
        text = _text_at(items, number + 1)
        after[number] = _is_space(text[:1]) if text else after[number + 1]
    return [own if all(near) else near for own, near in zip(direct, zip(before, after, strict=True), strict=True)]


def _is_space(character: str) -> bool:
    return character != "" and character in SPACE


def _text_at(items: list[_Item], number: int) -> str:
    """Return the text of an item, or nothing if it is a tag or there is none."""
    return items[number].text if 0 <= number < len(items) and items[number].role in (None, "kept") else ""
