"""Add translations to the units of a TMX file. Everything that is there stays as it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt_core.documents.charset import places_in
from nmt_core.documents.document import ALREADY_TRANSLATED, Document, Edit, Options, Segment
from nmt_core.documents.inline import end_of, inline_segment
from nmt_core.documents.splicing import TextDocument
from nmt_core.documents.xml_events import Event, decoded_xml, events_of, rendering, space_before
from nmt_core.errors import DataError
from nmt_core.formats.languages import fit
from nmt_core.formats.rows import MISSING_LANGUAGE


@dataclass
class _Variant:
    """`tuv`: the text of a unit in one language."""

    tag: Event
    closing: int
    """Position of its end tag."""
    end: int
    seg: Sequence[Event]
    """Events of its `seg`, with its start and its end."""

    @property
    def language(self) -> tuple[str, str]:
        """Name of the attribute that states the language, and the language."""
        own = self.tag.attributes
        return next(((name, own[name]) for name in ("xml:lang", "lang") if own.get(name)), ("xml:lang", ""))


def read_tmx(content: bytes, name: str, options: Options) -> Document:
    """Return a TMX file.

    Raises:
        DataError: the file is not well-formed, or no TMX.
    """
    text, charset = decoded_xml(content, name)
    events = events_of(text, name)
    root = next(event for event in events if event.kind == "start")
    if root.local != "tmx":
        raise DataError(f"{name}: has the root element <{root.name}>, not <tmx>: name the file by its format")
    reader = _Reader(text, options)
    for number, event in enumerate(events):
        if event.kind == "start" and event.local == "tu":
            reader.add(events[number : end_of(events, number) + 1])
    return TextDocument(text, charset, reader.segments, reader.edits, has_references=True)


class _Reader:
    def __init__(self, text: str, options: Options) -> None:
        self.segments: list[Segment] = []
        self.edits: list[Edit] = []
        self._text, self._options = text, options
        self._place = places_in(text)

    def add(self, unit: Sequence[Event]) -> None:
        """Add the segment and the edit of a unit."""
        variants = list(_variants(unit))
        source = _best(variants, self._options.source_language)
        target = _best(variants, self._options.target_language)
        if not source:
            self.segments.append(Segment("", self._place(unit[0].start), fault=MISSING_LANGUAGE))
            return
        built = inline_segment(source.seg[1:-1], self._text, self._place)
        if not built:
            return
        is_done = target and any(event.kind == "text" and event.text.strip() for event in target.seg)
        if is_done and self._options.redo != "all":
            self.segments.append(built.segment._replace(fault=built.segment.fault or ALREADY_TRANSLATED))
            return
        number = len(self.segments)
        self.segments.append(built.segment)
        before = self._text[source.seg[0].end : built.start]
        after = self._text[built.end : source.seg[-1].start]
        if target:
            tag = self._text[target.seg[0].start : target.seg[0].end]
            is_open = not tag.endswith("/>")
            opening = tag if is_open else f"{tag[:-2].rstrip()}>"
            closing = "" if is_open else f"</{target.seg[0].name}>"
            start, end = target.seg[0].start, target.seg[-1].start if is_open else target.seg[0].end
            self.edits.append(Edit(start, end, (number,), rendering(opening + before, after + closing)))
            return
        self.edits.append(self._inserted(source, number, before, after))

    def _inserted(self, source: _Variant, number: int, before: str, after: str) -> Edit:
        """Return the edit that adds a variant behind the source."""
        tag, seg = source.tag, source.seg[0]
        spaces = [space_before(self._text, place) for place in (tag.start, seg.start, source.closing)]
        language = f'{source.language[0]}="{self._options.target_language}"'
        opening = f"{spaces[0]}<{tag.name} {language}>{spaces[1]}<{seg.name}>{before}"
        closing = f"{after}</{seg.name}>{spaces[2]}</{tag.name}>"
        return Edit(source.end, source.end, (number,), rendering(opening, closing))


def _variants(unit: Sequence[Event]) -> Sequence[_Variant]:
    variants = []
    for number, event in enumerate(unit):
        if event.kind != "start" or event.local != "tuv":
            continue
        last = end_of(unit, number)
        segs = [place for place in range(number, last) if unit[place].kind == "start" and unit[place].local == "seg"]
        if segs:
            variants.append(
                _Variant(event, unit[last].start, unit[last].end, unit[segs[0] : end_of(unit, segs[0]) + 1])
            )
    return variants


def _best(variants: Sequence[_Variant], language: str) -> _Variant | None:
    """Return the variant that fits a language best."""
    fits = [(fit(variant.language[1], language), variant) for variant in variants if variant.language[1]]
    best = max((rank for rank, _ in fits), default=0)
    return next((variant for rank, variant in fits if rank and rank == best), None)
