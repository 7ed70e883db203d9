"""Read the inline elements of TMX and XLIFF as tags of a segment."""

from collections.abc import Callable, Sequence
from typing import Literal

from nmt_core.documents.builder import Builder, Built
from nmt_core.documents.xml_events import Event
from nmt_core.formats.exchange import stands_alone

_CODES = frozenset({"bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec", "cp", "sm", "em"})
"""Elements that hold mark-up of the original document, or stand for it. They stay with everything in them."""
_OPENING = frozenset({"bpt", "bx", "sc"})
_CLOSING = frozenset({"ept", "ex", "ec"})
_KEYS = ("startRef", "rid", "i", "id")
"""Attributes that the two codes of a pair share, the most telling first."""


def inline_segment(events: Sequence[Event], text: str, place: Callable[[int], str]) -> Built | None:
    """Return the segment that these events of an element hold, or None if there is nothing to translate."""
    builder = Builder(text, place)
    number = 0
    while number < len(events):
        event = events[number]
        last = number
        if event.kind == "text":
            builder.add_text(event.start, event.end, event.text)
        elif event.kind == "start" and event.local in _CODES:
            last = end_of(events, number)
            _add_code(builder, events[number : last + 1])
        elif event.kind == "start" and _is_protected(event):
            last = end_of(events, number)
            shown = "".join(one.text for one in events[number:last])
            builder.add_kept(event.start, events[last].end, shown)
        elif event.kind in ("start", "end"):
            last = number + (event.kind == "start" and events[number + 1].end == event.end)
            role: Literal["open", "close", "alone"] = "close" if event.kind == "end" else "open"
            builder.add_tag(event.start, event.end, "alone" if last > number else role, event.name)
        number = last + 1
    return builder.built()


def end_of(events: Sequence[Event], number: int) -> int:
    """Return the number of the event that ends the element that an event starts."""
    depth = 0
    for place in range(number, len(events)):
        depth += {"start": 1, "end": -1}.get(events[place].kind, 0)
        if not depth:
            return place
    return len(events) - 1


def _add_code(builder: Builder, events: Sequence[Event]) -> None:
    element = events[0]
    start, end = element.start, events[-1].end
    key = next((element.attributes[name] for name in _KEYS if name in element.attributes), "")
    if element.local in _OPENING:
        builder.add_tag(start, end, "open", key)
    elif element.local in _CLOSING:
        builder.add_tag(start, end, "close", key)
    else:
        content = "".join(event.text for event in events)
        is_glued = not stands_alone(element.local, element.attributes, content)
        builder.add_tag(start, end, "alone", is_glued=is_glued)


def _is_protected(event: Event) -> bool:
    return event.attributes.get("mtype") == "protected" or event.attributes.get("translate") == "no"
