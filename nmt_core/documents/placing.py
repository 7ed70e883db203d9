"""Put the tags of a segment into its translation, where the alignment of the words says.

A pair of tags goes around the words that are linked to the words that it was around, and a tag that stands alone goes
to the word that is linked to its neighbour. Where no link says anything, the place is proportional to the place in the
source. No tag is ever lost, and pairs stay nested. In scripts without spaces, each character counts as a word and has
no links.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nmt_core.documents.document import Pieces, Segment, Tag, Translated
from nmt_core.text.unspaced import UNSPACED_OR_WIDE

_WORD = re.compile(r"\S+")
_CLOSING = ".,;:!?)]}»”’\"'…。，、！？"
_OPENING = "([{«“„¿¡\"'"
_NEAR = 300
"""Number of characters around the proportional place in which text is looked for."""
_FAR = 2
"""Number of words without a link that end a run of linked words."""


@dataclass
class _Node:
    """Tag that stands alone, or a pair of tags with what is between them."""

    tag: Tag
    close: Tag | None = None
    inner: list["_Node"] = field(default_factory=list)

    @property
    def span(self) -> tuple[int, int]:
        """Characters of the source that it covers."""
        if self.close:
            return self.tag.at, self.close.at
        return self.tag.at, self.tag.at + len(self.tag.shown)


def placed(segment: Segment, translated: Translated) -> Pieces:
    """Return the translation of a segment with all tags of the segment in it."""
    if not segment.tags:
        return [translated.text]
    if translated.text == segment.text:
        return _as_in_the_source(segment)
    return _Placing(segment, translated).pieces()


def _as_in_the_source(segment: Segment) -> Pieces:
    """Return the text of a segment with its tags where they are."""
    pieces: list[str | Tag] = []
    at = 0
    for tag in segment.tags:
        own = segment.text[at : tag.at]
        at = tag.at + len(tag.shown)
        if tag.is_break:
            own = own.rstrip(" ")
        pieces += [own, tag]
        if tag.role != "kept" and tag.before and tag.after:
            pieces.append(" ")
    return [piece for piece in [*pieces, segment.text[at:]] if piece != ""]


def _nodes(tags: Sequence[Tag], numbers: range) -> list[_Node]:
    nodes, skip = [], -1
    for number in numbers:
        tag = tags[number]
        if number <= skip:
            continue
        if tag.role == "open" and tag.partner > number:
            skip = tag.partner
            nodes.append(_Node(tag, tags[skip], _nodes(tags, range(number + 1, skip))))
        else:
            nodes.append(_Node(tag))
    return nodes


class _Placing:
    def __init__(self, segment: Segment, translated: Translated) -> None:
        self._source, self._text = segment.text, translated.text
        self._segment = segment
        self._source_words = [match.span() for match in _WORD.finditer(self._source)]
        self._source_starts = [start for start, _ in self._source_words]
        self._source_ends = [end for _, end in self._source_words]
        words = [match.span() for match in _WORD.finditer(self._text)]
        self._links: dict[int, list[tuple[int, int]]] = {}
        for source, target in translated.links:
            if source < len(self._source_words) and target < len(words):
                start, end = words[target]
                if not UNSPACED_OR_WIDE.search(self._text, start, end):
                    self._links.setdefault(source, []).append((start, end))
        self._words = [
            own
            for start, end in words
            for own in (
                ((at, at + 1) for at in range(start, end))
                if UNSPACED_OR_WIDE.search(self._text, start, end)
                else ((start, end),)
            )
        ]
        self._starts = [start for start, _ in self._words]
        self._ends = [end for _, end in self._words]
        self._order = {word: number for number, word in enumerate(self._words)}
        self._out: list[str | Tag] = []

    def pieces(self) -> Pieces:
        nodes = _nodes(self._segment.tags, range(len(self._segment.tags)))
        self._emit(nodes, 0, len(self._text))
        return [piece for piece in self._out if piece != ""]

    def _emit(self, nodes: Sequence[_Node], low: int, high: int) -> None:
        """Append the text from `low` to `high` with the nodes in it."""
        at = low
        spans = [(*self._wanted(node, low, high), number) for number, node in enumerate(nodes)]
        if not self._segment.in_order:
            spans.sort(key=lambda span: (span[0], span[2]))
        for start, end, number in spans:
            node = nodes[number]
            start = min(max(start, at), high)
            end = min(max(end, start), high)
            self._out += [self._text[at:start]] if start > at else []
            if (
                node.tag.role == "kept"
                and self._out
                and isinstance(self._out[-1], Tag)
                and self._out[-1].role == "kept"
            ):
                self._out.append(" ")  # two pieces of code would become one
            if node.close:
                self._out.append(node.tag)
                self._emit(node.inner, start, end)
                self._out.append(node.close)
                at = end
            elif node.tag.role == "kept" and end > start:
                self._out.append(node.tag)
                at = end
            else:
                at = self._add_alone(node.tag, start, high)
        self._out.append(self._text[at:high])

    def _add_alone(self, tag: Tag, at: int, high: int) -> int:
        """Append a tag that covers no text, with the spaces around it, and return the place after it."""
        if tag.is_break:
            if self._out and isinstance(self._out[-1], str):
                self._out[-1] = self._out[-1].rstrip()
            self._out.append(tag)
            while at < high and self._text[at].isspace():
                at += 1
            return at
        begins_word = at == 0 or self._text[at - 1].isspace()
        ends_word = at == len(self._text) or self._text[at].isspace()
        is_apart = (tag.before and tag.after) or tag.role == "kept"
        self._out += [" "] if is_apart and not begins_word else []
        self._out.append(tag)
        self._out += [" "] if is_apart and begins_word and not ends_word else []
        return at

    def _wanted(self, node: _Node, low: int, high: int) -> tuple[int, int]:
        """Return the characters of the translation that a node should cover, between `low` and `high`."""
        start, end = node.span
        covered = self._source[start:end]
        if not covered.strip():
            place = self._place_alone(node.tag, start, low, high)
            return place, place
        span = self._verbatim(covered, start, low, high) if node.tag.role == "kept" else None
        if not span and (linked := self._linked(start, end)):
            span = self._without_marks(*linked, covered)
        if not span and node.tag.role != "kept":
            span = self._verbatim(covered, start, low, high) or self._proportional(start, end)
        if not span:
            place = self._snapped(start)
            return place, place
        return min(max(span[0], low), high), min(max(span[1], low), high)

    def _linked(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the longest run of words that are linked to the words between two places of the source."""
        numbers = range(bisect_right(self._source_ends, start), bisect_left(self._source_starts, end))
        own = sorted(link for number in numbers for link in self._links.get(number, ()))
        if not own:
            return None
        runs = [[own[0]]]
        for former, link in pairwise(own):
            if self._order[link] - self._order[former] > _FAR:
                runs.append([])
            runs[-1].append(link)
        best = max(runs, key=len)
        return best[0][0], best[-1][1]

    def _without_marks(self, start: int, end: int, covered: str) -> tuple[int, int]:
        """Return a span without punctuation at its ends that the source has outside of the pair."""
        while end - start > 1 and self._text[end - 1] in _CLOSING and covered.rstrip()[-1] not in _CLOSING:
            end -= 1
        while end - start > 1 and self._text[start] in _OPENING and covered.lstrip()[0] not in _OPENING:
            start += 1
        return start, end

    def _verbatim(self, covered: str, at: int, low: int, high: int) -> tuple[int, int] | None:
        """Return the place where the translation has a text of the source, the nearest if there are several."""
        sought = re.escape(covered.strip())
        end = at + len(covered)
        left = "" if self._source[at - 1 : at].isalnum() and at else r"(?<!\w)"
        right = "" if self._source[end : end + 1].isalnum() else r"(?!\w)"
        expected = int(self._expected(at))
        begin, stop = max(low, expected - _NEAR), min(high, expected + _NEAR)
        for flags in (re.NOFLAG, re.IGNORECASE):
            pattern = re.compile(f"{left}{sought}{right}", flags)
            spans = [match.span() for match in pattern.finditer(self._text, begin, stop)]
            if spans:
                return min(spans, key=lambda span: abs(span[0] - expected))
        return None

    def _expected(self, at: int) -> float:
        return at * len(self._text) / max(len(self._source), 1)

    def _proportional(self, start: int, end: int) -> tuple[int, int]:
        begin = self._snapped(start)
        return begin, max(_nearest(self._ends, self._expected(end), len(self._text)), self._end_after(begin))

    def _end_after(self, at: int) -> int:
        """Return the end of the first word that ends after a place."""
        number = bisect_right(self._ends, at)
        return self._ends[number] if number < len(self._ends) else len(self._text)

    def _snapped(self, at: int) -> int:
        """Return the beginning of the word that is nearest to a place of the source."""
        return _nearest(self._starts, self._expected(at), len(self._text))

    def _place_alone(self, tag: Tag, at: int, low: int, high: int) -> int:
        number = bisect_right(self._source_starts, at) - 1
        if number >= 0 and self._source_words[number][0] < at < self._source_words[number][1]:
            return min(max(self._within(number, at), low), high)
        following = bisect_right(self._source_ends, at)
        former = bisect_left(self._source_starts, at) - 1
        if following == len(self._source_words):
            return high
        if former < 0:
            return low
        after = [max(link[1] for link in self._links[former])] if former in self._links else []
        ahead = [min(link[0] for link in self._links[following])] if following in self._links else []
        places = [*after, *ahead] if tag.after and not tag.before else [*ahead, *after]
        if places:
            place = places[0]
        else:
            place = self._snapped(at)
            if tag.after and not tag.before:
                place = _nearest(self._ends, self._expected(at), len(self._text))
        return min(max(place, low), high)

    def _within(self, number: int, at: int) -> int:
        """Return the place of a tag within a word: before the marks at the end of the word, or behind it."""
        start, end = self._source_words[number]
        links = self._links.get(number)
        if links:
            begin, stop = links[0][0], links[-1][1]
        else:
            begin = self._snapped(start)
            stop = self._end_after(begin)
        if not self._source[at:end].strip(_CLOSING):
            first = max(begin + 1, stop - (end - at))  # marks before the tag stay before it
            while stop > first and self._text[stop - 1] in _CLOSING:
                stop -= 1
        return begin if not self._source[start:at].strip(_OPENING) else stop


def _nearest(places: Sequence[int], expected: float, default: int) -> int:
    """Return the place that is nearest to another. Places ascend."""
    number = bisect_left(places, expected)
    return min(places[max(number - 1, 0) : number + 1], key=lambda place: abs(place - expected), default=default)
