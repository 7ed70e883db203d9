"""Parts of a line that are translated one by one: its sentences, and the text between what is copied."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nmt_core.search.translation import Part, Translation
from nmt_core.search.unknown import Span, cut_at, without_marks
from nmt_core.terms.glossary import Occurrence
from nmt_core.tokenizer.tokenizer import UNK_ID


@dataclass(eq=False)
class LinePart:
    """Part of a line. `Translator` fills in its translation."""

    text: str
    """Text to translate. Empty if there is only text to copy."""
    after: str = ""
    """Text that is copied behind the translation, such as line breaks."""
    prefix: list[int] = field(default_factory=list)
    """Ids with which the translation begins."""
    pieces: list[list[int]] = field(default_factory=list)
    """Ids of the text, in parts that the model can read."""
    is_long: bool = False
    """True if the model cannot read the text at once."""
    has_unknown: bool = False
    """True if the vocabulary cannot spell all of the text."""
    spans: Sequence[Span] | None = None
    """Places of the text that the vocabulary cannot spell. None means that nothing is copied."""
    is_known: bool = True
    """False if there is nothing to translate in the text, so that it is copied."""
    terms: Sequence[Occurrence] = ()
    """Places of the terms of the glossary in the text."""
    found: list[Translation] = field(default_factory=list)
    """Translations of the pieces."""
    cut: list["LinePart"] = field(default_factory=list)
    """Parts that take the place of this one: its sentences, or the text between what is unknown. Empty if the part is
    not cut."""
    is_cut_at_copies: bool = False
    """True if the text between the parts is copied, and brings its own spaces."""
    has_runs: bool = False
    """True if the part holds runs that are no language, which are copied, and the parts between them."""

    @classmethod
    def between(cls, parts: list["LinePart"]) -> "LinePart":
        """Return the part that holds these, which are the text between runs that are copied."""
        return cls("", cut=parts, is_cut_at_copies=True, has_runs=True)

    @property
    def without_runs(self) -> list["LinePart"]:
        """The parts that are translated if there are runs, otherwise the part itself."""
        return self.cut if self.has_runs else [self]

    def read(self, ids: Sequence[int], pieces: list[list[int]], *, is_long: bool) -> None:
        """Set the ids of the text."""
        self.pieces, self.is_long, self.has_unknown = pieces, is_long, UNK_ID in ids

    @property
    def copies(self) -> list[str] | None:
        """Text for each <unk> of the translation. None means that <unk> stays."""
        return None if self.spans is None else [self.text[start:end] for start, end in self.spans]

    def cut_into(self, texts: Sequence[str]) -> None:
        """Replace the part by these texts, unless there is only one."""
        if len(texts) > 1:
            self.cut = [LinePart(text) for text in texts]
            self.cut[0].prefix = self.prefix

    def take(self, translation: Translation | None) -> None:
        """Add the translation of the next piece. None means that the text has to be cut at what is unknown."""
        if translation:
            self.found.append(translation)
        elif not self.cut:
            self.is_cut_at_copies = True
            self.cut = [LinePart(text, after) for text, after in cut_at(*without_marks(self.text, self.spans or ()))]
            first = next((part for part in self.cut if part.text), self.cut[0])
            first.prefix = self.prefix

    def all_terms(self) -> list[Occurrence]:
        """Return the terms of all parts of this one."""
        return [one for part in self.cut for one in part.all_terms()] if self.cut else list(self.terms)

    def groups(self) -> Iterator[list[Part]]:
        """Yield the translations of each sentence with the text that is copied, and the line breaks between them."""
        if self.cut and not self.is_cut_at_copies:
            for part in self.cut:
                yield from part.groups()
        else:
            yield list(self._items())
        if self.after:
            yield [self.after]

    def _items(self) -> Iterator[Part]:
        if self.cut:
            for part in self.cut:
                yield from part._items()
                yield part.after
        elif self.is_known:
            yield from self.found
        else:
            yield self.text
