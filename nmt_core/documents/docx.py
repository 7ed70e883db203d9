"""Read Word documents (.docx): body, headers, footers, footnotes and endnotes. All other parts stay as they are.

A paragraph is a segment. The formatting of most of its text is the formatting of the translation, and text with other
formatting is a pair of tags, as is a link. Pictures, fields, notes and tabs are tags that stand alone. A run that
itself holds paragraphs, such as a text box, ends a segment.
"""

import io
import lzma
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nmt_core.documents.builder import Builder
from nmt_core.documents.document import Document, Edit, Options, Pieces, Render, Role, Segment, Spliced, Translated
from nmt_core.documents.inline import end_of
from nmt_core.documents.splicing import spliced
from nmt_core.documents.xml_events import Event, decoded_xml, events_of, written
from nmt_core.errors import DataError

_PART = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\d*\.xml")
_MOST_BYTES = 1 << 30
_FORMAT = "\0"
"""First character of the mark-up of a tag that stands for a format. The format follows, or nothing at its end."""
_NO_DOCX = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    LookupError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""Errors of `zipfile` on files that are damaged, encrypted or no archive."""
_WRAPPERS = frozenset({"hyperlink", "ins", "smartTag"})
"""Elements around runs that become pairs of tags."""
_MARKS = frozenset(
    [
        "bookmarkStart",
        "bookmarkEnd",
        "commentRangeStart",
        "commentRangeEnd",
        "permStart",
        "permEnd",
        "del",
        "moveFrom",
    ]
)
"""Elements between runs that stand alone."""
_NO_FORMAT = re.compile(r"<\w+:(?:lang|noProof)\b[^>]*?/>|\s?\w+:rsid\w*=\"[^\"]*\"")
"""Parts of a format that do not show."""


@dataclass(frozen=True)
class _Part:
    """XML file of a document, as `spliced` wants it."""

    name: str
    text: str
    charset: str
    segments: Sequence[Segment]
    edits: Sequence[Edit]


@dataclass(frozen=True)
class _Docx:
    content: bytes
    parts: Sequence[_Part]

    @property
    def segments(self) -> Sequence[Segment]:
        return [segment for part in self.parts for segment in part.segments]

    def splice(self, translations: Sequence[Translated | None]) -> Spliced:
        changed: dict[str, bytes] = {}
        first = 0
        for part in self.parts:
            own = translations[first : first + len(part.segments)]
            first += len(part.segments)
            text, _ = spliced(part, own, lambda new: new)
            if text != part.text:
                changed[part.name] = text.encode(part.charset)
        return Spliced(_with_parts(self.content, changed) if changed else self.content, frozenset())


def read_docx(content: bytes, name: str, options: Options) -> Document:
    """Return a Word document.

    Raises:
        DataError: the file is damaged, encrypted or no Word document.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                raise DataError(f"{name}: holds more than {_MOST_BYTES:,} bytes: split the document")
            _with_parts(content, {})  # a damaged part is found here, not when everything is translated
            names = [entry for entry in archive.namelist() if _PART.fullmatch(entry)]
            texts = {entry: archive.read(entry) for entry in dict.fromkeys(names)}
    except _NO_DOCX as error:
        raise DataError(
            f"{name}: cannot be read as .docx ({error}): save it again as .docx, without a password"
        ) from None
    if "word/document.xml" not in texts:
        raise DataError(f"{name}: has no word/document.xml, so it is no Word document: save it again as .docx")
    return _Docx(content, [_part(texts[entry], entry, f"{name}, {entry}") for entry in texts])


def _with_parts(content: bytes, changed: dict[str, bytes]) -> bytes:
    """Return the archive with some files replaced. All others keep their content, order and times."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(target, "w") as new:
        new.comment = archive.comment
        for entry in archive.infolist():
            new.writestr(entry, changed.get(entry.filename) or archive.read(entry), entry.compress_type)
    return target.getvalue()


def _part(content: bytes, entry: str, name: str) -> _Part:
    text, charset = decoded_xml(content, name)
    reader = _Reader(text, entry)
    reader.read(events_of(text, name))
    return _Part(entry, text, charset, reader.segments, reader.edits)


@dataclass(frozen=True)
class _Run:
    """Run (`w:r`) with its format."""

    events: Sequence[Event]
    format: str
    """Its `w:rPr` as it is written."""
    look: str
    """The part of the format that shows."""

    @property
    def content(self) -> Iterator[Sequence[Event]]:
        """Yield the elements of the run apart from its format."""
        number = 1
        while number < len(self.events) - 1:
            last = end_of(self.events, number) if self.events[number].kind == "start" else number
            if self.events[number].kind == "start" and self.events[number].local != "rPr":
                yield self.events[number : last + 1]
            number = last + 1


class _Reader:
    def __init__(self, text: str, entry: str) -> None:
        self.segments: list[Segment] = []
        self.edits: list[Edit] = []
        self._text, self._entry = text, entry
        self._paragraphs = 0

    def read(self, events: Sequence[Event]) -> None:
        """Read everything."""
        for number, event in enumerate(events):
            if event.kind == "start" and event.local == "p" and event.name.startswith("w:"):
                self._paragraphs += 1
                for group in self._groups(events[number : end_of(events, number) + 1]):
                    self._add(group)

    def _groups(self, element: Sequence[Event]) -> Iterator[list[Sequence[Event]]]:
        """Yield sequences of runs, of marks between runs, and of the tags of wrappers."""
        group: list[Sequence[Event]] = []
        number = 1
        while number < len(element) - 1:
            event = element[number]
            last = end_of(element, number) if event.kind == "start" else number
            unit = element[number : last + 1]
            holds_paragraphs = any(one.kind == "start" and one.local == "p" for one in unit)
            if event.local in _WRAPPERS and not holds_paragraphs:
                group.append([event])
                last = number
            elif event.kind == "start" and event.local in {"r", *_MARKS} and not holds_paragraphs:
                group.append(unit)
            elif event.kind == "start" and event.local not in ("pPr", "proofErr"):  # proofErr marks words of the source
                yield group
                group = []
                if event.local != "r" and not holds_paragraphs:
                    yield from self._groups(unit)
            number = last + 1
        yield group

    def _add(self, group: Sequence[Sequence[Event]]) -> None:
        """Add the segment of a group, if it has text."""
        lengths: Counter[str] = Counter()
        for unit in group:
            if unit[0].local == "r":
                run = self._run(unit)
                lengths[run.look] += sum(len(text) for text in map(_text_of, run.content))
        if not lengths.total():
            return
        layout = _Layout(self._text, self._place(), lengths.most_common(1)[0][0])
        for unit in group:
            if unit[0].local == "r":
                layout.add_run(self._run(unit))
            else:
                layout.add_mark(unit)
        if found := layout.built():
            segment, render = found
            start, end = group[0][0].start, group[-1][-1].end
            self.edits.append(Edit(start, end, (len(self.segments),), render, current=segment.text))
            self.segments.append(segment)

    def _place(self) -> str:
        return f"{self._entry}, paragraph {self._paragraphs}"

    def _run(self, events: Sequence[Event]) -> _Run:
        numbers = [n for n, event in enumerate(events) if event.kind == "start" and event.local == "rPr"]
        if not numbers:
            return _Run(events, "", "")
        own = self._text[events[numbers[0]].start : events[end_of(events, numbers[0])].end]
        return _Run(events, own, re.sub(r"<w:rPr\s*>\s*</w:rPr>|<w:rPr\s*/>", "", _NO_FORMAT.sub("", own)))


def _text_of(element: Sequence[Event]) -> str:
    """Return the text of an element of a run, which is empty for anything but text."""
    match element[0].local:
        case "t":
            return "".join(event.text for event in element if event.kind == "text")
        case "noBreakHyphen":
            return "\u2011"
        case "softHyphen":
            return "\u00ad"
    return ""


@dataclass(frozen=True)
class _Item:
    """Text or mark-up of a group, and its position in the draft."""

    start: int
    end: int
    markup: str | None
    """Mark-up. None means text."""
    format: str
    """Format of the text."""


class _Layout:
    """Draft of a group: its text with mark-up between, as one string that a builder reads.

    Args:
        text: text of the XML file.
        place: name of the paragraph.
        look: look of most of the text. Other looks become pairs of tags.
    """

    def __init__(self, text: str, place: str, look: str) -> None:
        self._text, self._place, self._look = text, place, look
        self._calls: list[Callable[[Builder], None]] = []
        self._items: list[_Item] = []
        self._draft = ""
        self._inner: str | None = None
        """Look of the open pair of tags for a format."""
        self._base = ""
        self._in_order = False

    def add_run(self, run: _Run) -> None:
        """Add the text and the other content of a run."""
        if run.look != (self._look if self._inner is None else self._inner):
            self._end_format()
            if run.look != self._look:
                self._add_tag("open", _FORMAT + run.format, "format")
                self._inner = run.look
        if run.look == self._look:
            self._base = self._base or run.format
        opening = self._text[run.events[0].start : run.events[0].end]
        for element in run.content:
            text, name = _text_of(element), element[0].local
            if text:
                self._add_text(text, run.format)
            elif name not in ("t", "lastRenderedPageBreak"):
                own = self._text[element[0].start : element[-1].end]
                markup = f"{opening}{run.format}{own}</{run.events[0].name}>"
                self._add_tag("alone", markup, is_break=name in ("br", "cr", "tab"))
                self._in_order |= name in ("fldChar", "instrText")

    def add_mark(self, unit: Sequence[Event]) -> None:
        """Add a mark between runs, or a tag of a wrapper."""
        self._end_format()
        event = unit[0]
        role: Role = "alone"
        if event.local in _WRAPPERS:
            role = "open" if event.kind == "start" else "close"
        self._add_tag(role, self._text[event.start : unit[-1].end], event.name)

    def built(self) -> tuple[Segment, Render] | None:
        """Return the segment and the function that writes the whole group."""
        self._end_format()
        builder = Builder(self._draft, lambda _: self._place)
        for call in self._calls:
            call(builder)
        builder.in_order = self._in_order
        found = builder.built()
        if not found:
            return None
        formats = [self._base]
        for item in self._items:
            if item.end <= found.start and item.markup is not None and item.markup.startswith(_FORMAT):
                formats = [*formats, item.markup[1:]] if len(item.markup) > 1 else formats[:-1]
        before, after = self._written(0, found.start), self._written(found.end, len(self._draft))
        return found.segment, lambda pieces: f"{before}{_rendered(pieces, formats)}{after}"

    def _end_format(self) -> None:
        if self._inner is not None:
            self._add_tag("close", _FORMAT, "format")
            self._inner = None

    def _add_text(self, text: str, own_format: str) -> None:
        start = len(self._draft)
        self._draft += text
        end = len(self._draft)
        self._items.append(_Item(start, end, None, own_format))
        self._calls.append(lambda builder: builder.add_text(start, end, text))

    def _add_tag(self, role: Role, markup: str, key: str = "", *, is_break: bool = False) -> None:
        start = len(self._draft)
        self._draft += markup
        end = len(self._draft)
        self._items.append(_Item(start, end, markup, ""))
        self._calls.append(
            lambda builder: builder.add_tag(start, end, role, key, is_break=is_break, is_glued=not is_break)
        )

    def _written(self, start: int, end: int) -> str:
        """Return a part of the group that is not translated."""
        parts = []
        for item in self._items:
            if item.end > start and item.start < end and item.markup is None:
                parts.append(_run_of(self._draft[max(start, item.start) : min(end, item.end)], item.format))
            elif item.end > start and item.start < end and item.markup and not item.markup.startswith(_FORMAT):
                parts.append(item.markup)
        return "".join(parts)


def _rendered(pieces: Pieces, formats: Sequence[str]) -> str:
    """Return a translation as runs. The last format is the one at its beginning."""
    stack, parts = list(formats), []
    for one in pieces:
        if isinstance(one, str):
            parts.append(_run_of(one, stack[-1]))
        elif not one.markup.startswith(_FORMAT):
            parts.append(one.markup)
        elif len(one.markup) > 1 or one.role == "open":
            stack.append(one.markup[1:])
        elif len(stack) > 1:
            stack.pop()
    return "".join(parts)


def _run_of(text: str, own_format: str) -> str:
    return f'<w:r>{own_format}<w:t xml:space="preserve">{written(text)}</w:t></w:r>'
