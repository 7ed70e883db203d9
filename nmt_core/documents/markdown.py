"""Read Markdown (CommonMark with tables). Code, addresses of links, HTML tags and front matter stay as they are.

markdown-it finds the lines of paragraphs, headings and cells. What is within them is found here, because it gives no
columns. A paragraph of several lines becomes one line, unless its line breaks count.
"""

import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from nmt_core.documents.builder import Builder
from nmt_core.documents.charset import MARK, decoded, places_in
from nmt_core.documents.document import Document, Edit, Options, Pieces, Segment
from nmt_core.documents.html import read_part
from nmt_core.documents.splicing import TextDocument
from nmt_core.errors import DataError

_FRONT = re.compile(r"\ufeff?(?P<mark>---|\+\+\+)[ \t]*\r?\n.*?^(?P=mark)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.*?)(?<!`)(?P=ticks)(?!`)", re.DOTALL)
_AUTOLINK = re.compile(r"<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[^\s<>@]+@[^\s<>]+)>")
_ADDRESS = re.compile(r"\b(?:https?|ftp)://[^\s<>()\[\]`*]+[^\s<>()\[\]`*.,;:!?'\"_]")
_HTML = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w-]*)(?:\s[^<>]*)?(?P<empty>/?)>|<!--.*?-->", re.DOTALL)
_VOID = frozenset({"br", "hr", "img", "input", "wbr"})
_NOTE = re.compile(r"\[\^[^\]\s]+\]:?")
_IMAGE = re.compile(r"!\[(?:[^\[\]\\]|\\.|\[[^\[\]]*\])*\](?:\((?:[^()\\\n]|\\.|\([^()]*\))*\)|\[[^\[\]]*\])?")
_TARGET = re.compile(
    r"\]\(\s*(?:<[^<>\n]*>|(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)(?:\s+(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)"
)
_REFERENCE = re.compile(r"\]\[(?P<label>[^\[\]]*)\]")
_MARKS = re.compile(r"\*{1,3}|_{1,3}|~~")
_TASK = re.compile(r"\[[ xX]\][ \t]+(?=\S)")
"""Box of a task at the beginning of an item, which GitHub and others draw."""
_HARD_BREAK = re.compile(r"(?: {2,}|\\)\r?\n[ \t>]*")
_SOFT_BREAK = re.compile(r"[ \t]*\r?\n[ \t>]*")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_SPECIAL = re.compile(r"[\\`*\[\]<]|(?<!\w)_|_(?!\w)|~~|&(?=#?\w+;)")
_AT_START = re.compile(r"\A(?:[#>+=~-]|\d+(?=[.)]))")


def read_markdown(content: bytes, name: str, options: Options) -> Document:
    """Return a Markdown page.

    Raises:
        DataError: the page cannot be parsed.
    """
    text, charset = decoded(content, name)
    front = _FRONT.match(text)
    reader = _Reader(text, name, front.end() if front else len(text) - len(text.removeprefix(MARK)))
    try:
        reader.read()
    except (RecursionError, ValueError, IndexError) as error:
        raise DataError(f"{name}: cannot be read as Markdown ({error}): repair it, or name it *.txt") from None
    return TextDocument(text, charset, reader.segments, reader.edits)


class _Reader:
    def __init__(self, text: str, name: str, start: int) -> None:
        self.segments: list[Segment] = []
        self.edits: list[Edit] = []
        self._text, self._name, self._start = text, name, start
        self._parsed = text.replace("\0", "\ufffd")
        """The text as markdown-it has it in its tokens."""
        self._place = places_in(text)
        self._lines = [start]
        """Positions at which lines begin, as markdown-it counts them."""
        for match in re.finditer(r"\r\n|\n|\r", text[start:]):
            self._lines.append(start + match.end())
        self._cursor = start
        self._labels: frozenset[str] = frozenset()

    def read(self) -> None:
        """Read everything."""
        environment: dict[str, Any] = {}
        tokens = MarkdownIt("commonmark").enable("table").parse(self._text[self._start :], environment)
        self._labels = frozenset(environment.get("references", ()))
        is_cell = is_item = False
        for token in tokens:
            is_cell = token.type in ("th_open", "td_open") or (is_cell and token.type == "inline")
            is_item = token.type == "list_item_open" or (is_item and token.type in ("paragraph_open", "inline"))
            if token.type == "inline" and token.map and token.content.strip():
                self._add(token, is_cell, is_item)
            elif token.type == "html_block" and token.map:
                self._add_html(token)

    def _line(self, number: int) -> int:
        return self._lines[number] if number < len(self._lines) else len(self._text)

    def _add_html(self, token: Token) -> None:
        assert token.map
        start, end = max(self._line(token.map[0]), self._cursor), self._line(token.map[1])
        if start < end:
            segments, edits = read_part(self._text, start, end, self._place, self._name, len(self.segments))
            self.segments += segments
            self.edits += edits
            self._cursor = end

    def _add(self, token: Token, is_cell: bool, is_item: bool) -> None:
        """Add the text of a paragraph, a heading or a cell. A place that is not found stays as it is."""
        assert token.map
        found = self._position(token.content, token.map[0], token.map[1], is_cell)
        if not found:
            return
        start, end = found
        if is_item and (task := _TASK.match(self._text, start, end)):
            start = task.end()
        self._cursor = end
        builder = Builder(self._text, self._place)
        _Inline(self._text, end, self._labels, builder).read(start)
        if built := builder.built():
            is_first = built.start == start and not is_cell
            render = _rendering(is_cell=is_cell, is_first=is_first)
            self.edits.append(Edit(built.start, built.end, (len(self.segments),), render, current=built.segment.text))
            self.segments.append(built.segment)

    def _position(self, content: str, first: int, last: int, is_cell: bool) -> tuple[int, int] | None:
        """Return the positions of a token's content, whose lines follow each other from line `first`."""
        own = content.split("\n")
        if is_cell:
            own = [
                content.replace("|", r"\|") if content not in self._parsed[self._cursor : self._line(last)] else content
            ]
        start, at = -1, max(self._cursor, self._line(first))
        for line in own:
            position = self._parsed.find(line, at, self._line(last))
            if position < 0:
                return None
            start = position if start < 0 else start
            at = position + len(line)
        return start, at


class _Inline:
    """Scanner of the text of one paragraph, heading or cell."""

    def __init__(self, text: str, end: int, labels: frozenset[str], builder: Builder) -> None:
        self._text, self._end, self._labels, self._builder = text, end, labels, builder
        self._plain = -1
        """Position of text that has been passed and not been added yet."""
        self._closings: dict[int, tuple[int, str]] = {}
        """End and mark-up of the closing tag at a position."""
        self._marks: dict[int, tuple[int, bool]] = {}
        """End of the emphasis mark at a position, and whether it opens."""

    def read(self, start: int) -> None:
        """Add everything from a position on to the segment."""
        self._find_pairs(start)
        at = start
        while at < self._end:
            following = self._tag(at)
            if following == at:
                self._plain = at if self._plain < 0 else self._plain
                escape = _ESCAPED.match(self._text, at, self._end)
                following = escape.end() if escape else at + 1
            at = following
        self._flush(at)

    def _flush(self, at: int) -> None:
        if self._plain >= 0:
            raw = self._text[self._plain : at]
            self._builder.add_text(self._plain, at, unescape(_ESCAPED.sub(r"\1", raw)))
            self._plain = -1

    def _tag(self, at: int) -> int:
        """Add the tag at a position, if there is one, and return the position after it."""
        if at in self._closings:
            end, markup = self._closings[at]
            return self._add(at, end, "close", "link", markup)
        if at in self._marks:
            end, opens = self._marks[at]
            return self._add(at, end, "open" if opens else "close", self._text[at:end])
        if self._text[at] not in "`<[!\\ \n\rhf":
            return at
        if found := self._kept(at):
            end, shown = found
            self._flush(at)
            self._builder.add_kept(at, end, shown)
            return end
        for pattern, is_break in ((_NOTE, False), (_IMAGE, False), (_HARD_BREAK, True)):
            if found_tag := pattern.match(self._text, at, self._end):
                return self._add(at, found_tag.end(), "alone", is_break=is_break)
        if soft := _SOFT_BREAK.match(self._text, at, self._end):
            self._flush(at)
            self._builder.add_text(at, soft.end(), " ")
            return soft.end()
        if html := _HTML.match(self._text, at, self._end):
            name, is_alone = html["name"], not html["name"] or html["empty"] or html["name"].casefold() in _VOID
            role = "alone" if is_alone else "close" if html["end"] else "open"
            return self._add(at, html.end(), role, name)
        if self._text[at] == "[" and at in self._opened:
            return self._add(at, at + 1, "open", "link")
        return at

    def _add(
        self, at: int, end: int, role: Any, key: str = "", markup: str | None = None, is_break: bool = False
    ) -> int:
        self._flush(at)
        self._builder.add_tag(at, end, role, key, markup=markup, is_break=is_break)
        return end

    def _kept(self, at: int) -> tuple[int, str] | None:
        """Return the end of text that must stay as it is, and the text: code or an address."""
        if code := _CODE.match(self._text, at, self._end):
            return code.end(), code["code"]
        for pattern in (_AUTOLINK, _ADDRESS):
            if address := pattern.match(self._text, at, self._end):
                return address.end(), address[0].strip("<>")
        return None

    def _find_pairs(self, start: int) -> None:
        """Find links and emphasis, of which both ends must be known."""
        self._opened: set[int] = set()
        brackets: list[int] = []
        marks: list[tuple[int, int]] = []
        at = start
        while at < self._end:
            passed = self._passed(at)
            if passed > at:
                at = passed
                continue
            if self._text[at] == "[":
                brackets.append(at)
            elif self._text[at] == "]" and brackets:
                at = self._close_link(brackets.pop(), at)
                continue
            elif mark := _MARKS.match(self._text, at, self._end):
                self._match_mark(mark.start(), mark.end(), marks)
                at = mark.end()
                continue
            at += 1

    def _passed(self, at: int) -> int:
        """Return the position after code, an address, an image or an escape. In these, nothing else counts."""
        if self._text[at] not in "`<!\\[hf":
            return at
        for pattern in (_ESCAPED, _CODE, _AUTOLINK, _ADDRESS, _HTML, _IMAGE, _NOTE):
            if found := pattern.match(self._text, at, self._end):
                return found.end()
        return at

    def _close_link(self, opening: int, at: int) -> int:
        """Note a link that ends here, and return the position after it."""
        label = self._text[opening + 1 : at]
        inline = _TARGET.match(self._text, at, self._end)
        reference = _REFERENCE.match(self._text, at, self._end)
        if inline:
            end, markup = inline.end(), inline[0]
        elif reference and _normal(reference["label"] or label) in self._labels:
            end, markup = reference.end(), reference[0] if reference["label"] else f"][{label}]"
        elif _normal(label) in self._labels:
            end, markup = at + 1, f"][{label}]"
        else:
            return at + 1
        self._opened.add(opening)
        self._closings[at] = end, markup
        return end

    def _match_mark(self, start: int, end: int, marks: list[tuple[int, int]]) -> None:
        before = self._text[start - 1 : start] or " "
        after = self._text[end : end + 1] if end < self._end else " "
        is_word = self._text[start] != "_" or not (before.isalnum() and after.isalnum())
        mark = self._text[start:end]
        own = next((n for n in reversed(range(len(marks))) if self._text[slice(*marks[n])] == mark), None)
        if own is not None and not before.isspace() and is_word:
            first, last = marks[own]
            del marks[own:]
            self._marks[first], self._marks[start] = (last, True), (end, False)
        elif not after.isspace() and is_word:
            marks.append((start, end))


def _normal(label: str) -> str:
    """Return a label as markdown-it stores it."""
    return re.sub(r"\s+", " ", label.strip()).lower().upper()


def _rendering(*, is_cell: bool, is_first: bool) -> Callable[[Pieces], str]:
    def render(pieces: Pieces) -> str:
        return "".join(_written(pieces, is_cell, is_first))

    return render


def _written(pieces: Pieces, is_cell: bool, is_first: bool) -> Iterator[str]:
    for number, one in enumerate(pieces):
        if not isinstance(one, str):
            yield one.markup
            continue
        text = _SPECIAL.sub(r"\\\g<0>", re.sub(r"\s*[\r\n]\s*", " ", one))
        if is_cell:
            text = text.replace("|", r"\|")
        if is_first and not number:
            text = _AT_START.sub(lambda match: match[0] + "\\" if match[0].isdigit() else "\\" + match[0], text)
        yield text
