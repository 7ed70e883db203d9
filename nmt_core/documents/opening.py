"""Find the format of a document, by its name or its content, and read it."""

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from nmt_core.documents.document import Document, Options
from nmt_core.documents.docx import read_docx
from nmt_core.documents.html import read_html
from nmt_core.documents.markdown import read_markdown
from nmt_core.documents.po import read_po
from nmt_core.documents.subtitles import read_srt, read_vtt
from nmt_core.documents.tmx import read_tmx
from nmt_core.documents.xliff import read_xliff
from nmt_core.errors import DataError
from nmt_core.formats.kinds import Kind, data_name, is_html_page, kind_by_signs
from nmt_core.formats.streams import ByteStream

Reader = Callable[[bytes, str, Options], Document]

MOST_BYTES = 1 << 26
"""Size of the largest document. It is in memory as a whole."""

_READERS: Mapping[str, Reader] = {
    "po": read_po,
    "xliff": read_xliff,
    "tmx": read_tmx,
    "html": read_html,
    "markdown": read_markdown,
    "srt": read_srt,
    "vtt": read_vtt,
    "docx": read_docx,
}
_SUFFIXES = {
    ".po": "po",
    ".pot": "po",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".tmx": "tmx",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".srt": "srt",
    ".vtt": "vtt",
    ".docx": "docx",
}
_SHOWN = {Kind.PO: ".po", Kind.XLIFF: ".xlf", Kind.TMX: ".tmx"}
_SRT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\d+[ \t]*\r?\n\d+:\d\d:\d\d[,.]\d+[ \t]*-->")
_VTT = re.compile(rb"(?:\xef\xbb\xbf)?WEBVTT(?=\s)")
_ZIP = b"PK\x03\x04"


def format_by_name(name: str) -> str:
    """Return the format that the suffix names: a key of the formats above, or nothing for other files."""
    return _SUFFIXES.get(PurePosixPath(data_name(name)).suffix.casefold(), "")


def suffix_by_content(head: bytes) -> str:
    """Return the suffix that a document with this beginning should have, or nothing if it looks like text."""
    kind = kind_by_signs(head)
    if kind in _SHOWN:
        return _SHOWN[kind]
    if is_html_page(head):
        return ".html"
    if head.startswith(_ZIP) and b"word/" in head:
        return ".docx"
    if _VTT.match(head):
        return ".vtt"
    return ".srt" if _SRT.match(head) else ""


def open_document(content: bytes, form: str, name: str, options: Options) -> Document:
    """Return a document.

    Args:
        content: the whole file.
        form: its format, see `format_by_name`.
        name: its name, for errors.
        options: languages of the model, and what to replace.

    Raises:
        DataError: the document cannot be parsed.
    """
    if content.startswith(_ZIP) and form != "docx":
        raise DataError(f"{name}: is a zip archive, not a {form} document: unpack it, and name the document inside")
    try:
        return _READERS[form](content, name, options)
    except RecursionError:
        raise DataError(f"{name}: its elements are nested too deeply: repair the document") from None


def require_no_document(stream: ByteStream) -> None:
    """Check that a text is not a document that would be ruined if it were translated line by line.

    Raises:
        DataError: it begins as a document does, and its name does not say that it is text.
    """
    if PurePosixPath(data_name(stream.name)).suffix.casefold() in (".txt", ".text"):
        return
    if suffix := suffix_by_content(stream.peek()):
        raise DataError(
            f"{stream.name}: looks like a {suffix} document, which would be ruined line by line: name the file "
            f"*{suffix}, give it with --input, and name a file with --output; or call it *.txt if each of its lines is "
            "a text"
        )
