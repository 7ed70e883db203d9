"""Read test sets: SGM, one file for each side (WMT until 2020, IWSLT), and XML with both sides (WMT since 2021)."""

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from nmt_core.formats.languages import fit
from nmt_core.formats.layout import Layout
from nmt_core.formats.lines import texts_of
from nmt_core.formats.markup import parse
from nmt_core.formats.rows import MISSING_LANGUAGE, UNTRANSLATED, Row, Text, checked, frames_of, row_of
from nmt_core.formats.streams import ByteStream

_MOST_BYTES = 1 << 27
_SEGMENT = re.compile(rb"<seg\b[^>]*>(.*?)</seg\s*>", re.IGNORECASE | re.DOTALL)
_LINE_BREAK = re.compile(rb"[ \t]*[\r\n][ \t\r\n]*")
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")


def read_sgm(stream: ByteStream, max_line_bytes: int) -> Iterator[pl.DataFrame]:
    """Yield the segments of one side in order, in tables like the ones of `lines.read_lines`.

    SGM is not XML: unescaped & and < are allowed.
    """
    matches = _SEGMENT.findall(stream.read_whole(_MOST_BYTES))
    segments = [_LINE_BREAK.sub(b" ", segment.strip(b" \t\r\n")) for segment in matches]
    if segments:
        side = texts_of(pl.Series(segments, dtype=pl.Binary), max_line_bytes)
        text = side["text"].map_elements(_unescape, return_dtype=pl.String)
        yield checked(side.with_columns(text.alias("text")), max_line_bytes)


def _unescape(text: str) -> str:
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def read_xml(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield the source of each document paired with its first reference.

    See `reader.read` for the tables and errors.
    """
    yield from frames_of(parse(stream, _Documents(layout)), layout.max_line_bytes)


@dataclass
class _Version:
    """A document in one language.

    The key of a segment is its id and the number of earlier segments with the same id.
    """

    language: str
    segments: dict[tuple[str, int], Text] = field(default_factory=dict)
    _seen: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, text: Text) -> None:
        """Append a segment. A segment without an id gets its number as id."""
        name = name or str(len(self.segments) + 1)
        self.segments[name, self._seen[name]] = text
        self._seen[name] += 1


class _Documents:
    """Handler for WMT test sets (see `markup.Handler`)."""

    hidden = frozenset({"hyp"})
    units = frozenset({"doc"})
    containers = frozenset({"collection"})

    def __init__(self, layout: Layout) -> None:
        self.rows: list[Row] = []
        self.text: Text | None = None
        self._layout = layout
        self._versions: list[_Version] = []

    def start(self, element: str, attributes: dict[str, str]) -> None:
        if element == "doc":
            self._versions = []
        elif element in ("src", "ref"):
            self._versions.append(_Version(attributes.get("lang", "")))
        elif element == "seg" and self._versions:
            self.text = Text(self._layout.max_line_bytes)
            self._versions[-1].add(attributes.get("id", ""), self.text)

    def end(self, element: str) -> None:
        if element == "seg":
            self.text = None
        elif element == "doc":
            self.rows.extend(self._pairs())

    def hide(self, element: str, attributes: dict[str, str], content: str) -> None:
        pass

    def give_up(self) -> None:
        self._versions, self.text = [], None

    def _pairs(self) -> Iterator[Row]:
        source, target = self._in(self._layout.source_language), self._in(self._layout.target_language)
        if source is None or target is None:
            there = ", ".join(dict.fromkeys(version.language for version in self._versions))
            for text in self._versions[0].segments.values() if self._versions else ():
                yield row_of(text, None, MISSING_LANGUAGE, f"only {there}")
            return
        for place in dict.fromkeys((*source.segments, *target.segments)):
            sides = source.segments.get(place), target.segments.get(place)
            if all(sides):
                yield row_of(*sides)
            else:
                yield row_of(*sides, UNTRANSLATED, f"segment {place[0]}")

    def _in(self, language: str) -> _Version | None:
        return max(
            (version for version in self._versions if fit(version.language, language)),
            key=lambda version: fit(version.language, language),
            default=None,
        )
