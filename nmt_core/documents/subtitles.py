"""Read subtitles: SRT and WebVTT. Numbers, times, settings, styles and notes stay as they are.

The lines of a cue are one segment, and its line breaks are put where the alignment says. Lines that begin with a dash,
which are spoken by several persons, are segments of their own, without the dash.
"""

import re
from collections.abc import Callable, Iterator
from html import unescape

from nmt_core.documents.builder import Builder
from nmt_core.documents.charset import decoded, places_in
from nmt_core.documents.document import Document, Edit, Options, Pieces, Segment
from nmt_core.documents.splicing import TextDocument
from nmt_core.documents.tagged import add_tagged
from nmt_core.errors import DataError

_LINE = re.compile(r"[^\n]*\n?")
_TIME = re.compile(r"\s*(?:\d+:)?\d+:\d\d[,.]\d+[ \t]*-->[ \t]*(?:\d+:)?\d+:\d\d[,.]\d+")
_SPEAKER = re.compile(r"\s*(?:<[^<>\n]*>|\{[^{}\n]*\})*\s*[-\u2010-\u2015]")


def read_srt(content: bytes, name: str, options: Options) -> Document:
    """Return subtitles in the format SRT.

    Raises:
        DataError: there is no cue.
    """
    text, charset = decoded(content, name)
    document = _document(text, charset, lambda raw: raw, _srt)
    if not any(map(_TIME.match, text.split("\n"))) and text.strip("\ufeff \r\n"):
        raise DataError(f"{name}: has no line such as 00:00:01,000 --> 00:00:02,000: name the file by its format")
    return document


def read_vtt(content: bytes, name: str, options: Options) -> Document:
    """Return subtitles in the format WebVTT.

    Raises:
        DataError: the file does not begin with WEBVTT.
    """
    text, charset = decoded(content, name)
    if not re.match(r"\ufeff?WEBVTT(?=\s|\Z)", text):
        raise DataError(f"{name}, line 1: does not begin with WEBVTT: name it *.srt if it is SRT, or repair it")
    return _document(text, charset, unescape, _vtt)


def _document(text: str, charset: str, decode: Callable[[str], str], render: Callable[[Pieces], str]) -> Document:
    segments: list[Segment] = []
    edits: list[Edit] = []
    place = places_in(text)
    for cue in _cues(text):
        builder = Builder(text, place)
        for start, end in cue:
            add_tagged(builder, text, start, end, decode)
            following = text.startswith("\r", end) + 1
            if (start, end) != cue[-1]:
                builder.add_tag(end, end + following, "alone", is_break=True)
        if built := builder.built():
            edits.append(Edit(built.start, built.end, (len(segments),), render, current=built.segment.text))
            segments.append(built.segment)
    return TextDocument(text, charset, segments, edits, has_references=render is _vtt)


def _cues(text: str) -> Iterator[list[tuple[int, int]]]:
    """Yield the positions of the lines of each cue, without their line ends. A line of a speaker begins another."""
    at, is_cue = 0, False
    lines: list[tuple[int, int]] = []
    while at < len(text):
        match = _LINE.match(text, at)
        assert match
        line, start, at = match[0], at, match.end()
        end = start + len(line.rstrip("\r\n"))
        if _TIME.match(line):
            if lines:
                yield lines
            is_cue, lines = True, []
        elif not line.strip():
            if lines:
                yield lines
            is_cue, lines = False, []
        elif is_cue:
            speaker = _SPEAKER.match(line)
            if lines and speaker:
                yield lines
                lines = []
            is_plain = speaker and not re.search(r"[<{]", speaker[0])
            lines.append((start + speaker.end() if speaker and is_plain else start, end))
    if lines:
        yield lines


def _srt(pieces: Pieces) -> str:
    """Return a translation as SRT, which has no escapes. An arrow could be read as a time."""
    return "".join(one.replace("-->", "->") if isinstance(one, str) else one.markup for one in pieces)


def _vtt(pieces: Pieces) -> str:
    return "".join(_escaped(one) if isinstance(one, str) else one.markup for one in pieces)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
