"""Write translations into the targets of XLIFF 1.2 and 2. Sources, notes and finished targets stay as they are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt_core.documents.charset import places_in
from nmt_core.documents.document import ALREADY_TRANSLATED, Document, Edit, Options, Segment
from nmt_core.documents.inline import end_of, inline_segment
from nmt_core.documents.languages import require_languages
from nmt_core.documents.splicing import TextDocument
from nmt_core.documents.xml_events import Event, decoded_xml, events_of, rendering, space_before
from nmt_core.errors import DataError

_SKIPPED = frozenset(
    [
        "alt-trans",
        "matches",
        "ignorable",
        "note",
        "notes",
        "header",
        "skeleton",
        "skl",
        "glossary",
        "metadata",
        "bin-unit",
        "originalData",
    ]
)
_NOT_YET = frozenset({"new", "needs-translation", "needs-l10n", "initial"})
"""States of a target that holds no translation, whatever text is in it."""
_UNFINISHED = _NOT_YET | {
    "needs-review-translation",
    "needs-review-l10n",
    "needs-adaptation",
    "needs-review-adaptation",
}
_STATE = re.compile(r"""(\sstate\s*=\s*)(["'])[^"']*\2""")


@dataclass
class _Unit:
    """`trans-unit` of XLIFF 1.2, or `segment` of XLIFF 2."""

    element: Event
    parts: dict[str, Sequence[Event]] = field(default_factory=dict)
    """Events of source, seg-source and target, with their start and their end."""


def read_xliff(content: bytes, name: str, options: Options) -> Document:
    """Return an XLIFF file.

    Raises:
        DataError: the file is not well-formed or no XLIFF, or its languages are others.
    """
    text, charset = decoded_xml(content, name)
    reader = _Reader(text, name, options)
    reader.read(events_of(text, name))
    return TextDocument(text, charset, reader.segments, reader.edits, has_references=True)


class _Reader:
    def __init__(self, text: str, name: str, options: Options) -> None:
        self.segments: list[Segment] = []
        self.edits: list[Edit] = []
        self._text, self._name, self._options = text, name, options
        self._place = places_in(text)
        self._is_2 = False

    def read(self, events: Sequence[Event]) -> None:
        """Read everything."""
        root = next(event for event in events if event.kind == "start")
        if root.local != "xliff":
            raise DataError(
                f"{self._name}: has the root element <{root.name}>, not <xliff>: name the file by its format"
            )
        self._is_2 = root.attributes.get("version", "").startswith("2")
        unit: _Unit | None = None
        translates = [True]
        number = 0
        while number < len(events):
            event = events[number]
            if event.kind == "start" and event.local in _SKIPPED:
                number = end_of(events, number)
            elif event.kind == "start":
                stated = event.attributes.get("translate")
                translates.append(translates[-1] if stated is None else stated == "yes")
                self._require_languages(event)
                if event.local in ("trans-unit", "segment"):
                    unit = _Unit(event) if translates[-1] else None
                elif unit and event.local in ("source", "seg-source", "target"):
                    last = end_of(events, number)
                    unit.parts[event.local] = events[number : last + 1]
                    number = last
                    translates.pop()
            elif event.kind == "end":
                translates.pop()
                if unit and event.local in ("trans-unit", "segment"):
                    self._add(unit)
                    unit = None
            number += 1
        self._state_language(root)

    def _require_languages(self, event: Event) -> None:
        values = event.attributes
        if event.local == "file" and not self._is_2:
            stated = values.get("source-language", ""), values.get("target-language", "")
        elif event.local == "xliff":
            stated = values.get("srcLang", ""), values.get("trgLang", "")
        else:
            return
        require_languages(f"{self._name}, {self._place(event.start)}", self._options, *stated)

    def _state_language(self, root: Event) -> None:
        """Name the target language, which XLIFF 2 requires of a file with targets."""
        own = self._options.target_language
        if self._is_2 and "trgLang" not in root.attributes and own and self.segments:
            end = root.end - 1
            self.edits.append(Edit(end, end, (f' trgLang="{own}"',), str, requires=tuple(range(len(self.segments)))))

    def _add(self, unit: _Unit) -> None:
        source, target = unit.parts.get("source"), unit.parts.get("target")
        built = inline_segment(source[1:-1], self._text, self._place) if source else None
        if not source or not built:
            return
        state = (target[0].attributes if target and not self._is_2 else unit.element.attributes).get("state", "")
        has_text = bool(target) and any(event.kind == "text" and event.text.strip() for event in target or ())
        is_unfinished = state in _UNFINISHED or unit.element.attributes.get("approved") == "no"
        redo = self._options.redo == "all" or (self._options.redo == "fuzzy" and is_unfinished)
        if has_text and state not in _NOT_YET and not redo:
            self.segments.append(built.segment._replace(fault=built.segment.fault or ALREADY_TRANSLATED))
            return
        number = len(self.segments)
        self.segments.append(built.segment)
        before = self._text[source[0].end : built.start]
        after = self._text[built.end : source[-1].start]
        self.edits.append(self._edit(unit, number, before, after))
        if self._is_2 and "state" in unit.element.attributes and (state in _NOT_YET or redo):
            tag = self._text[unit.element.start : unit.element.end]
            new = _STATE.sub(r"\1\2translated\2", tag)
            self.edits.append(Edit(unit.element.start, unit.element.end, (new,), str, requires=(number,)))

    def _edit(self, unit: _Unit, number: int, before: str, after: str) -> Edit:
        """Return the edit that writes the target of a unit. The two texts come before and after the translation."""
        source, target = unit.parts["source"], unit.parts.get("target")
        if target:
            tag = self._text[target[0].start : target[0].end]
            is_open = not tag.endswith("/>")
            opening = self._with_state(tag if is_open else f"{tag[:-2].rstrip()}>")
            closing = "" if is_open else f"</{target[0].name}>"
            end = target[-1].start if is_open else target[0].end
            return Edit(target[0].start, end, (number,), rendering(opening + before, after + closing))
        name = source[0].name.replace("source", "target")
        opening = space_before(self._text, source[0].start) + self._with_state(f"<{name}>")
        at = unit.parts.get("seg-source", source)[-1].end
        return Edit(at, at, (number,), rendering(opening + before, f"{after}</{name}>"))

    def _with_state(self, tag: str) -> str:
        """Return the start of a target with a state that fits a new translation. XLIFF 2 states it elsewhere."""
        state = "needs-review-translation" if self._options.for_review else "translated"
        if self._is_2:
            return tag
        if _STATE.search(tag):
            return _STATE.sub(rf"\1\2{state}\2", tag)
        return f'{tag[:-1]} state="{state}">' if self._options.for_review else tag
