"""Read Word documents (.docx): body, headers, footers, footnotes and endnotes. All other parts stay as they are.

A paragraph is a segment, and a tab or a break within it ends one. The formatting of most of its text is the formatting
of the translation. Text with other formatting is a pair of tags, as is a link or a content control. Pictures, fields,
notes, formulas and deleted text are tags that stand alone. A run that itself holds paragraphs, such as a text box, ends
a segment. Text that Word takes from elsewhere stays: a control that is bound to data, a list or a date.
"""

import io
import lzma
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from nmt_core.documents.builder import Builder
from nmt_core.documents.document import Document, Edit, Options, Pieces, Render, Role, Segment, Spliced, Translated
from nmt_core.documents.inline import end_of
from nmt_core.documents.splicing import spliced
from nmt_core.documents.xml_events import Event, decoded_xml, events_of, written
from nmt_core.errors import DataError

_MAIN = re.compile(r"word/document\d*\.xml")
_PART = re.compile(r"word/(?:header|footer|footnotes|endnotes)\d*\.xml")
_CONTENT_TYPE = re.compile(r"\b(?:(document|template)|header|footer|footnotes|endnotes)(?:\.main)?\+xml", re.IGNORECASE)
"""Content types of the files with text. The group matches the type of the body."""
_WORD_NAMESPACE = re.compile(r"http://(?:schemas\.openxmlformats|purl\.oclc)\.org/.*/?wordprocessingml/(?:2006/)?main")
_TYPES = "[Content_Types].xml"
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
_WRAPPERS = frozenset({"hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "fldSimple", "dir", "bdo"})
"""Elements around runs that become pairs of tags."""
_PROPERTIES = frozenset({"sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr", "fldData"})
"""Elements at the beginning of a wrapper, which belong to its opening tag."""
_STORED_ELSEWHERE = frozenset({"dataBinding", "dropDownList", "comboBox", "date"})
"""Properties of a content control whose text Word replaces by its data, or by an item of a list."""
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
        "m:oMath",
        "m:oMathPara",
        *(f"{kind}Range{end}" for kind in ("moveFrom", "moveTo") for end in ("Start", "End")),
        *(f"customXml{kind}Range{end}" for kind in ("Ins", "Del", "MoveFrom", "MoveTo") for end in ("Start", "End")),
    ]
)
"""Elements between runs that stand alone."""
_BREAKS = frozenset({"tab", "ptab", "br", "cr"})
"""Elements of a run that end a segment: what they part are columns, lines or pages."""
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
            bodies, others = _text_files(archive, name)
            texts = {entry: archive.read(entry) for entry in [*bodies, *others]}
    except _NO_DOCX as error:
        raise DataError(
            f"{name}: cannot be read as .docx ({error}): save it again as .docx, without a password"
        ) from None
    if not bodies:
        raise DataError(f"{name}: has no word/document.xml, so it is not a Word document: save it again as .docx")
    return _Docx(content, [_part(texts[entry], entry, f"{name}, {entry}") for entry in texts])


def _text_files(archive: zipfile.ZipFile, name: str) -> tuple[list[str], list[str]]:
    """Return the names of the body, and of the other files with text, by their content types or usual names."""
    types = {}
    if _TYPES in archive.namelist():
        listing = f"{name}, {_TYPES}"
        for event in events_of(decoded_xml(archive.read(_TYPES), listing)[0], listing):
            if event.kind == "start" and event.local == "Override":
                types[event.attributes.get("PartName", "").lstrip("/")] = event.attributes.get("ContentType", "")
    bodies, others = [], []
    for entry in dict.fromkeys(archive.namelist()):
        kind = _CONTENT_TYPE.search(types.get(entry, ""))
        if _MAIN.fullmatch(entry) or (kind and kind[1]):
            bodies.append(entry)
        elif _PART.fullmatch(entry) or kind:
            others.append(entry)
    return bodies, others


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
    events = events_of(text, name)
    root = next(event for event in events if event.kind == "start")
    if not _WORD_NAMESPACE.fullmatch(root.attributes.get("xmlns:w", "")):
        raise DataError(f"{name}: has no prefix 'w' for Word's elements: open it in Word and save it again as .docx")
    reader = _Reader(text, entry)
    reader.read(events)
    return _Part(entry, text, charset, reader.segments, reader.edits)


@dataclass(frozen=True)
class _Run:
    """Run (`w:r`) with its format, or the part of one beside a break."""

    content: Sequence[Sequence[Event]]
    """Its elements apart from its format."""
    opening: str
    """Its tag and its `w:rPr`, as they are written."""
    format: str
    """Its `w:rPr` as it is written."""
    look: str
    """The part of the format that shows."""
    start: int
    end: int
    follows_break: bool = False
    """True if its tag is before a break."""
    precedes_break: bool = False
    """True if its end is behind a break."""

    @property
    def text(self) -> str:
        """Text of its elements."""
        return "".join(map(_text_of, self.content))

    def parts(self) -> Iterator["_Run | None"]:
        """Yield the parts between breaks, and None for each break."""
        first = 0
        for number, element in enumerate([*self.content, None]):
            if element and _word(element[0]) not in _BREAKS:
                continue
            if own := self.content[first:number]:
                start = own[0][0].start if first else self.start
                end = own[-1][-1].end if element else self.end
                yield replace(
                    self, content=own, start=start, end=end, follows_break=first > 0, precedes_break=element is not None
                )
            if element:
                yield None
            first = number + 1


_Unit = _Run | Sequence[Event]
"""Run, or a mark or a tag of a wrapper between runs."""


def _word(event: Event) -> str:
    """Return the name of an element of Word without its prefix, and other names with theirs."""
    return event.name.removeprefix("w:")


def _elements(element: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Yield the elements directly within an element."""
    number = 1
    while number < len(element) - 1:
        last = end_of(element, number) if element[number].kind == "start" else number
        if element[number].kind == "start":
            yield element[number : last + 1]
        number = last + 1


def _opening(element: Sequence[Event], number: int) -> int:
    """Return the number of the last event that belongs to the opening tag of a wrapper."""
    last, at = number, number + 1
    while at < len(element):
        event = element[at]
        if event.kind == "start" and _word(event) in _PROPERTIES:
            last = at = end_of(element, at)
        elif event.kind == "start" and _word(event) == "sdtContent":
            return at
        elif event.kind in ("start", "end") or event.text.strip():
            break
        at += 1
    return last


def _is_stored_elsewhere(element: Sequence[Event]) -> bool:
    """Return whether an element is a content control with text that Word takes from elsewhere."""
    return _word(element[0]) == "sdt" and any(
        event.kind == "start" and event.local in _STORED_ELSEWHERE
        for own in _elements(element)
        if _word(own[0]) == "sdtPr"
        for event in own
    )


class _Reader:
    def __init__(self, text: str, entry: str) -> None:
        self.segments: list[Segment] = []
        self.edits: list[Edit] = []
        self._text, self._entry = text, entry
        self._paragraphs = 0

    def read(self, events: Sequence[Event]) -> None:
        """Read everything."""
        left_until = -1
        for number, event in enumerate(events):
            if event.kind != "start" or event.name not in ("w:p", "w:sdt"):
                continue
            self._paragraphs += event.name == "w:p"
            if number <= left_until:
                continue
            element = events[number : end_of(events, number) + 1]
            if _is_stored_elsewhere(element):
                left_until = number + len(element) - 1
            elif event.name == "w:p":
                for group in self._groups(element):
                    self._add(group)

    def _groups(self, element: Sequence[Event]) -> Iterator[list[_Unit]]:
        """Yield sequences of runs, of marks between runs, and of the tags of wrappers."""
        group: list[_Unit] = []
        number = 1
        while number < len(element) - 1:
            event, word = element[number], _word(element[number])
            last = end_of(element, number) if event.kind == "start" else number
            unit = element[number : last + 1]
            holds_paragraphs = any(one.kind == "start" and one.local == "p" for one in unit)
            if event.kind == "end" and word in (*_WRAPPERS, "sdtContent"):
                last += next(n for n, one in enumerate(element[number:]) if _word(one) in _WRAPPERS)
                group.append(element[number : last + 1])
            elif event.kind == "start" and not holds_paragraphs and (word in _MARKS or _is_stored_elsewhere(unit)):
                group.append(unit)
            elif event.kind == "start" and not holds_paragraphs and word in _WRAPPERS:
                last = _opening(element, number)
                group.append(element[number : last + 1])
            elif event.kind == "start" and not holds_paragraphs and word == "r":
                for part in self._run(unit).parts():
                    if part:
                        group.append(part)
                    else:
                        yield group
                        group = []
            elif event.kind == "start" and word not in ("pPr", "proofErr"):  # proofErr marks words of the source
                yield group
                group = []
                if word != "r":
                    yield from self._groups(unit)
            number = last + 1
        yield group

    def _add(self, group: Sequence[_Unit]) -> None:
        """Add the segment of a group, if it has text."""
        lengths: Counter[str] = Counter()
        for unit in group:
            if isinstance(unit, _Run):
                lengths[unit.look] += len(unit.text)
        if not lengths.total():
            return
        layout = _Layout(self._text, self._place(), lengths.most_common(1)[0][0])
        for unit in group:
            if isinstance(unit, _Run):
                layout.add_run(unit)
            else:
                layout.add_mark(unit)
        if built := layout.built():
            segment, render = built
            first, last = group[0], group[-1]
            start = first.start if isinstance(first, _Run) else first[0].start
            end = last.end if isinstance(last, _Run) else last[-1].end
            before = "</w:r>" if isinstance(first, _Run) and first.follows_break else ""
            after = last.opening if isinstance(last, _Run) and last.precedes_break else ""
            self.edits.append(
                Edit(
                    start,
                    end,
                    (len(self.segments),),
                    lambda pieces: f"{before}{render(pieces)}{after}",
                    current=segment.text,
                )
            )
            self.segments.append(segment)

    def _place(self) -> str:
        return f"{self._entry}, paragraph {self._paragraphs}"

    def _run(self, events: Sequence[Event]) -> _Run:
        own_format = ""
        content = []
        for element in _elements(events):
            if _word(element[0]) == "rPr":
                own_format = self._text[element[0].start : element[-1].end]
            else:
                content.append(element)
        look = re.sub(r"<w:rPr\s*>\s*</w:rPr>|<w:rPr\s*/>", "", _NO_FORMAT.sub("", own_format))
        opening = self._text[events[0].start : events[0].end] + own_format
        return _Run(content, opening, own_format, look, events[0].start, events[-1].end)


def _text_of(element: Sequence[Event]) -> str:
    """Return the text of an element of a run, which is empty for anything but text."""
    match _word(element[0]):
        case "t":
            return "".join(event.text for event in element if event.kind == "text")
        case "noBreakHyphen":
            return "\u2011"
        case "softHyphen":
            return "\u00ad"
        case "ruby":  # its phonetic guide is for readers of the source
            bases = [element[n : end_of(element, n)] for n, event in enumerate(element) if event.name == "w:rubyBase"]
            return "".join(event.text for base in bases for event in base if event.kind == "text")
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
        if run.text.strip() and run.look != (self._look if self._inner is None else self._inner):
            self._end_format()
            if run.look != self._look:
                self._add_tag("open", _FORMAT + run.format, "format")
                self._inner = run.look
        if run.look == self._look:
            self._base = self._base or run.format
        for element in run.content:
            text, name = _text_of(element), _word(element[0])
            if text:
                self._add_text(text, run.format)
            elif name not in ("t", "lastRenderedPageBreak"):
                own = self._text[element[0].start : element[-1].end]
                self._add_tag("alone", f"{run.opening}{own}</w:r>")
                self._in_order |= name in ("fldChar", "instrText")

    def add_mark(self, unit: Sequence[Event]) -> None:
        """Add a mark between runs, or a tag of a wrapper."""
        self._end_format()
        markup = self._text[unit[0].start : unit[-1].end]
        if _is_stored_elsewhere(unit):
            self._add_kept(markup, "".join(event.text for event in unit if event.kind == "text"))
        elif _word(unit[-1]) in _WRAPPERS and unit[-1].kind == "end" and unit[0].kind == "end":
            self._add_tag("close", markup, unit[-1].name)
        elif _word(unit[0]) in _WRAPPERS:
            self._add_tag("open", markup, unit[0].name)
        else:
            self._add_tag("alone", markup)

    def built(self) -> tuple[Segment, Render] | None:
        """Return the segment and the function that writes the whole group."""
        self._end_format()
        builder = Builder(self._draft, lambda _: self._place)
        for call in self._calls:
            call(builder)
        builder.in_order = self._in_order
        built = builder.built()
        if not built:
            return None
        formats = [self._base]
        for item in self._items:
            if item.end <= built.start and item.markup is not None and item.markup.startswith(_FORMAT):
                formats = [*formats, item.markup[1:]] if len(item.markup) > 1 else formats[:-1]
        before, after = self._written(0, built.start), self._written(built.end, len(self._draft))
        return built.segment, lambda pieces: f"{before}{_rendered(pieces, formats)}{after}"

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

    def _add_tag(self, role: Role, markup: str, key: str = "") -> None:
        start, end = self._add_markup(markup)
        self._calls.append(lambda builder: builder.add_tag(start, end, role, key, is_glued=True))

    def _add_kept(self, markup: str, shown: str) -> None:
        start, end = self._add_markup(markup)
        self._calls.append(lambda builder: builder.add_kept(start, end, shown))

    def _add_markup(self, markup: str) -> tuple[int, int]:
        start = len(self._draft)
        self._draft += markup
        self._items.append(_Item(start, len(self._draft), markup, ""))
        return start, len(self._draft)

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
