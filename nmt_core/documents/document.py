"""Define a document: its segments, and the edits that put translations into it (see `splicing`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict

ALREADY_TRANSLATED = "already_translated"
"""Fault of a segment that has a translation, which stays."""
NOT_IN_CHARSET = "not_in_charset"
"""Status of a translation with characters that the charset of the document lacks."""

Redo = Literal["none", "fuzzy", "all"]
Role = Literal["open", "close", "alone", "kept"]


class Options(BaseModel):
    """Options for documents."""

    model_config = ConfigDict(frozen=True)
    source_language: str = ""
    target_language: str = ""
    redo: Redo = "none"
    """Translations in the document that are replaced: none, those that are marked as unfinished (`fuzzy`), or all."""
    for_review: bool = False
    """True marks new translations for review: `fuzzy` in PO, `needs-review-translation` in XLIFF 1.2."""


class Tag(NamedTuple):
    """Mark-up within the text of a segment."""

    markup: str
    """Mark-up as the document writes it."""
    role: Role
    """`open` and `close` are a pair around text. `alone` stands between words. `kept` covers text that must stay as it
    is, such as code: `markup` holds that text with its tags."""
    at: int
    """Number of characters of the text before it."""
    partner: int = -1
    """Number of the other tag of a pair. -1 means that there is none."""
    shown: str = ""
    """Text of a `kept` tag, which is part of the text of the segment."""
    before: bool = False
    """True if white space comes before a tag that stands alone."""
    after: bool = False
    """True if white space comes after a tag that stands alone."""
    is_break: bool = False
    """True if the tag takes the place of the space between two words, as a line break does."""


class Segment(NamedTuple):
    """Text that is translated as a whole, without mark-up and without the document's escapes."""

    text: str
    place: str
    """Place in the document, such as `line 12`."""
    tags: tuple[Tag, ...] = ()
    """Tags in the order of the document. Their positions refer to the text."""
    fault: str | None = None
    """Reason why the segment is not translated. None means that it is."""
    in_order: bool = False
    """True if the tags must keep their order, because they are no proper pairs."""


class Translated(NamedTuple):
    """Translation of a segment."""

    text: str
    links: Sequence[tuple[int, int]] = ()
    """Links between the words of the segment and the words of the translation, as `str.split` finds them."""


Pieces = Sequence[str | Tag]
"""Text of a translation with its tags at their places."""
Render = Callable[[Pieces], str]
"""Function that writes pieces as the document writes them."""


@dataclass(frozen=True)
class Edit:
    """Part of a document that is replaced."""

    start: int
    end: int
    parts: tuple[str | int, ...]
    """New text: as it is, or the translation of the segment with this number."""
    render: Render
    current: str | None = None
    """Present text, without mark-up. If the translation is equal, the part stays. None means that there is none."""
    requires: tuple[int, ...] = ()
    """Segments of which one must have been written. Empty means no condition."""

    @property
    def numbers(self) -> list[int]:
        """Numbers of the segments whose translations the edit writes."""
        return [part for part in self.parts if isinstance(part, int)]


class Spliced(NamedTuple):
    """Document with its translations."""

    content: bytes
    unwritten: frozenset[int]
    """Segments whose translations cannot be written in the charset of the document."""


class Document(Protocol):
    """Document in any format."""

    @property
    def segments(self) -> Sequence[Segment]:
        """Segments in the order of the document."""

    def splice(self, translations: Sequence[Translated | None]) -> Spliced:
        """Return the document with translations in place. None or an empty text leaves a segment as it is."""
