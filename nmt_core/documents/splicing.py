"""Put translations into a document, while everything that is not translated stays as it is."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from nmt_core.documents.document import Edit, Segment, Spliced, Tag, Translated
from nmt_core.documents.placing import placed


@dataclass(frozen=True)
class TextDocument:
    """Document that is one text."""

    text: str
    """The whole text. Bytes that are not in the charset are surrogates (`surrogateescape`)."""
    charset: str
    segments: Sequence[Segment]
    edits: Sequence[Edit]
    has_references: bool = False
    """True if characters that the charset lacks can be written as character references."""

    def splice(self, translations: Sequence[Translated | None]) -> Spliced:
        """Return the document with translations in place. None leaves a segment as it is."""
        text, unwritten = spliced(self, translations, self._encodable)
        return Spliced(text.encode(self.charset, "surrogateescape"), unwritten)

    def _encodable(self, text: str) -> str | None:
        """Return a text as the charset can hold it, or None."""
        try:
            return text.encode(self.charset, "xmlcharrefreplace" if self.has_references else "strict").decode(
                self.charset
            )
        except UnicodeError:
            return None


class Edited(Protocol):
    """Text with segments and edits."""

    @property
    def text(self) -> str:
        """The whole text."""

    @property
    def segments(self) -> Sequence[Segment]:
        """Segments in order."""

    @property
    def edits(self) -> Sequence[Edit]:
        """Edits, which do not overlap."""


def spliced(
    document: Edited, translations: Sequence[Translated | None], encodable: Callable[[str], str | None]
) -> tuple[str, frozenset[int]]:
    """Return the text with its edits, and the numbers of segments whose translations cannot be encoded."""
    done: list[tuple[Edit, str]] = []
    written: set[int] = set()
    unwritten: set[int] = set()
    for edit in document.edits:
        numbers = edit.numbers
        own = [translations[number] for number in numbers]
        if not numbers or not all(one and one.text for one in own):
            continue
        if edit.current is not None and _plain(edit, translations) == edit.current:
            continue
        new = encodable(_rendered(edit, document.segments, translations))
        if new is None:
            unwritten.update(numbers)
        else:
            written.update(numbers)
            done.append((edit, new))
    done += [
        (edit, "".join(map(str, edit.parts)))
        for edit in document.edits
        if not edit.numbers and written.intersection(edit.requires)
    ]
    done.sort(key=lambda one: (one[0].start, one[0].end))
    return _replaced(document.text, done), frozenset(unwritten)


def _replaced(text: str, done: Iterable[tuple[Edit, str]]) -> str:
    pieces, at = [], 0
    for edit, new in done:
        pieces += [text[at : edit.start], new]
        at = edit.end
    return "".join([*pieces, text[at:]])


def _plain(edit: Edit, translations: Sequence[Translated | None]) -> str:
    """Return the new text without mark-up."""
    own = (part if isinstance(part, str) else translations[part] for part in edit.parts)
    return "".join(one if isinstance(one, str) else one.text if one else "" for one in own)


def _rendered(edit: Edit, segments: Sequence[Segment], translations: Sequence[Translated | None]) -> str:
    pieces: list[str | Tag] = []
    for part in edit.parts:
        if isinstance(part, str):
            pieces.append(part)
        elif one := translations[part]:
            pieces += placed(segments[part], one)
    return edit.render(pieces)
