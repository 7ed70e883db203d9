"""Fill the empty msgstr of a PO file. The header, comments and all other entries stay as they are.

A message is translated line by line, and cut at tabs, so that its layout stays. Of an entry with plural forms, the
form for one thing is the translation of the msgid, and the others are translations of the msgid_plural.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from nmt_core.documents.builder import SPACE, Builder
from nmt_core.documents.charset import decoded, newline_of, places_in
from nmt_core.documents.document import ALREADY_TRANSLATED, Document, Edit, Options, Pieces, Segment
from nmt_core.documents.languages import require_languages
from nmt_core.documents.splicing import TextDocument
from nmt_core.documents.tagged import add_tagged
from nmt_core.errors import DataError
from nmt_core.formats.gettext import Header, charset_in_header, unescaped

_ASCII = re.compile(r"charset=(?:us-)?ascii\b", re.IGNORECASE)
_HEAD = 1 << 14
_STRING = r'"((?:[^"\\]|\\.)*)"'
_FIELD = re.compile(rf"[ \t]*(msgctxt|msgid_plural|msgid|msgstr|domain)(?:\[(\d+)\])?[ \t]*({_STRING})[ \t]*")
_MORE = re.compile(rf"[ \t]*({_STRING})[ \t]*")
_LINE = re.compile(r"[^\n]*\n?")
_FUZZY = re.compile(r"(,[ \t]*fuzzy\b|\bfuzzy[ \t]*,[ \t]*)")
_PLACEHOLDER = re.compile(r"%(?:\([^()]*\))?[-+ #0-9.*$]*(?:hh|h|ll|l|j|z|t|L)?[A-Za-z%]|\{[^{}\s]*\}|\$\{?\w+\}?")
_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r", "\a": r"\a", "\b": r"\b"}
_ESCAPES |= {"\f": r"\f", "\v": r"\v"}
_ESCAPED = re.compile(r'[\\"\n\t\r\a\b\f\v]')
_WIDTH = 77


@dataclass
class _Field:
    """Text of a msgid or msgstr, and the position of its quotes."""

    start: int
    end: int
    text: str
    lines: int = 1


@dataclass
class _Entry:
    fields: dict[str, _Field] = field(default_factory=dict)
    forms: dict[int, _Field] = field(default_factory=dict)
    flags: tuple[int, int] | None = None
    """Position of the line with the flags."""
    is_fuzzy: bool = False
    start: int = -1
    """Position of the first line that is no comment."""
    last: _Field | None = None


def read_po(content: bytes, name: str, options: Options) -> Document:
    """Return a PO file.

    Raises:
        DataError: a line is not PO, the charset is unknown, or the languages are others.
    """
    head = content[:_HEAD].decode("latin-1")
    declared = "ascii" if _ASCII.search(head) else charset_in_header(head, name)
    text, charset = decoded(content, name, declared)
    reader = _Reader(text, name, options)
    for entry in reader.entries():
        reader.add(entry)
    return TextDocument(text, charset, reader.segments, reader.edits)


class _Reader:
    def __init__(self, text: str, name: str, options: Options) -> None:
        self.segments: list[Segment] = []
        self.edits: list[Edit] = []
        self._text, self._name, self._options = text, name, options
        self._newline = newline_of(text)
        self._place = places_in(text)
        self._header: Header | None = None

    def entries(self) -> Iterator[_Entry]:
        """Yield all entries except obsolete ones."""
        entry, at = _Entry(), 1 if self._text.startswith("\ufeff") else 0
        while at < len(self._text):
            match = _LINE.match(self._text, at)
            assert match
            line, start, at = match[0].rstrip("\r\n"), at, match.end()
            field = _FIELD.fullmatch(line)
            begins = field and field[1] in ("msgctxt", "msgid", "domain")
            if (begins or not line.strip() or line.lstrip().startswith("#")) and entry.forms:
                yield entry
                entry = _Entry()
            elif not line.strip() and not entry.fields:
                entry = _Entry()
            if field:
                entry.start = start if entry.start < 0 else entry.start
                own = _Field(start + field.start(3), start + field.end(3), unescaped(field[4]))
                entry.last = own
                if field[1] == "msgstr":
                    entry.forms[int(field[2] or 0)] = own
                else:
                    entry.fields[field[1]] = own
            elif line.strip() and not line.lstrip().startswith("#"):
                self._add_line(entry, line, start)
            elif line.startswith("#,") and not entry.fields:
                entry.flags, entry.is_fuzzy = (start, at), "fuzzy" in line
        if entry.forms:
            yield entry

    def _add_line(self, entry: _Entry, line: str, start: int) -> None:
        more = _MORE.fullmatch(line)
        if not more or not entry.last:
            raise DataError(
                f"{self._name}, {self._place(start)}: {line.strip()[:60]!r} is not a line of a PO file: correct it, or "
                "name the file *.txt to translate it line by line"
            )
        entry.last.end = start + more.end(1)
        entry.last.text += unescaped(more[2])
        entry.last.lines += 1

    def add(self, entry: _Entry) -> None:
        """Add the segments and edits of an entry."""
        source, plural = entry.fields.get("msgid"), entry.fields.get("msgid_plural")
        forms = [entry.forms[number] for number in sorted(entry.forms)]
        if not source or (not source.text and "msgctxt" in entry.fields):
            return
        if not source.text:
            if self._header is None:
                self._header = Header.read(forms[0].text)
                require_languages(self._name, self._options, target=self._header.language)
            return
        is_done = all(form.text for form in forms)
        redo = self._options.redo == "all" or (self._options.redo == "fuzzy" and entry.is_fuzzy)
        if is_done and not redo:
            shown = " ".join(source.text.split())
            self.segments.append(Segment(shown, self._place(source.start), fault=ALREADY_TRANSLATED))
            return
        first = len(self.segments)
        made: dict[int, tuple[str | int, ...]] = {}
        filled: set[int] = set()
        for one, form in (self._header or Header()).pairs(source, plural, forms):
            own = plural if plural and len(forms) == 1 else one
            if form is None or own is None or (form.text and not redo) or form.start in filled:
                continue
            filled.add(form.start)
            parts = made[own.start] = made.get(own.start) or self._parts(own)
            if any(isinstance(part, int) for part in parts):
                self.edits.append(Edit(form.start, form.end, parts, self._render(own.lines > 1)))
        self._flag(entry, tuple(range(first, len(self.segments))))

    def _parts(self, source: _Field) -> tuple[str | int, ...]:
        """Return a message as text that stays, and numbers of segments."""
        parts: list[str | int] = []
        for line in re.split(r"([\n\r\t\v\f]+)", source.text):
            builder = Builder(line, lambda _: self._place(source.start))
            add_tagged(builder, line, 0, len(line))
            built = builder.built() if any(map(str.isalpha, _PLACEHOLDER.sub("", line))) else None
            if not built:
                parts.append(line)
                continue
            parts += [line[: built.start], len(self.segments), line[built.end :]]
            self.segments.append(built.segment)
        return tuple(part for part in parts if part != "")

    def _render(self, is_wide: bool) -> Callable[[Pieces], str]:
        def render(pieces: Pieces) -> str:
            text = "".join(one if isinstance(one, str) else one.markup for one in pieces)
            return quoted(text, self._newline, is_wide)

        return render

    def _flag(self, entry: _Entry, numbers: tuple[int, ...]) -> None:
        """Mark or unmark the entry as fuzzy, once one of these segments is translated."""
        if not numbers or entry.is_fuzzy == self._options.for_review:
            return
        start, end = entry.flags or (entry.start, entry.start)
        line = self._text[start:end]
        if not self._options.for_review:
            left = _FUZZY.sub("", line, count=1)
            new = "" if left.rstrip() == "#" else left if left.startswith("#,") else f"#, {left[1:].lstrip()}"
        elif entry.flags:
            new = line.replace("#,", "#, fuzzy,", 1)
        else:
            new = f"#, fuzzy{self._newline}"
        self.edits.append(Edit(start, end, (new,), str, requires=numbers))


def quoted(text: str, newline: str, is_wide: bool) -> str:
    """Return a text as a PO file writes it: in one line, or in several if it has line breaks or is long.

    Args:
        text: the text.
        newline: line end of the file.
        is_wide: True if the text may be wrapped.
    """
    lines = [line for line in re.split(r"(?<=\n)", text) if line]
    wrapped = [part for line in lines for part in (_wrapped(line) if is_wide else [line])]
    if len(wrapped) < 2:
        return f'"{_escaped(text)}"'
    return newline.join(['""', *(f'"{_escaped(line)}"' for line in wrapped)])


def _wrapped(line: str) -> Iterator[str]:
    part = ""
    for word in re.findall(rf"[^{SPACE}]*[{SPACE}]*", line):
        if part and len(_escaped(part + word.rstrip())) > _WIDTH:
            yield part
            part = ""
        part += word
    if part:
        yield part


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], text)
