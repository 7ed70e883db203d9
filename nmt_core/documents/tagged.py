"""Read text with a few tags such as <b>, as messages of programs and subtitles have them."""

import re
from collections.abc import Callable

from nmt_core.documents.builder import Builder

_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w.:-]*)(?:[^<>\n]*?(?P<empty>/?))>|\{\\[^{}\n]*\}|<[\d:.]+>")


def add_tagged(
    builder: Builder, document: str, start: int, end: int, decode: Callable[[str], str] = lambda text: text
) -> None:
    """Add the text and the tags between two places of a document.

    Args:
        builder: builder of the segment.
        document: the whole text.
        start: first position.
        end: position after the last character.
        decode: function that resolves the escapes of the format.
    """
    at = start
    for tag in _TAG.finditer(document, start, end):
        builder.add_text(at, tag.start(), decode(document[at : tag.start()]))
        at = tag.end()
        if not tag["name"] or tag["empty"]:
            builder.add_tag(tag.start(), at, "alone", is_glued=True)
        else:
            builder.add_tag(tag.start(), at, "close" if tag["end"] else "open", tag["name"])
    builder.add_text(at, end, decode(document[at:end]))
