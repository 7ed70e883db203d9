"""Detect the format and the packing of a file from its content.

The name decides only what the content cannot: whether lines that contain a tab or a comma are a table. A file that
holds one side is never a table. Its lines are text, whatever they contain.
"""

import codecs
import json
import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from nmt_core.errors import DataError
from nmt_core.formats import signatures
from nmt_core.formats.charsets import decoded
from nmt_core.formats.columns import are_usual_names
from nmt_core.formats.layout import FileSide
from nmt_core.formats.streams import HEAD_BYTES, ByteStream, open_file


class Kind(StrEnum):
    """File formats. Each value is the suffix of such a file."""

    LINES = ".txt"
    TSV = ".tsv"
    CSV = ".csv"
    JSONL = ".jsonl"
    JSON = ".json"
    TMX = ".tmx"
    XLIFF = ".xlf"
    PO = ".po"
    MO = ".mo"
    SGM = ".sgm"
    TEST_SET = ".xml"
    PARQUET = ".parquet"
    XLSX = ".xlsx"
    ZIP = ".zip"
    TAR = ".tar"


ARCHIVES = (Kind.ZIP, Kind.TAR)
_BOTH_SIDED = (Kind.TMX, Kind.XLIFF, Kind.PO, Kind.MO, Kind.TEST_SET, Kind.PARQUET, Kind.XLSX)


@dataclass(frozen=True)
class Look:
    """Format and packing of a file. `packing` is gz, zst, xz, bz2 or empty."""

    kind: Kind
    packing: str

    @property
    def suffix(self) -> str:
        """Suffix for a file with this content, such as `.txt.gz`."""
        return self.kind + (f".{self.packing}" if self.packing else "")


# The groups are possessive and atomic. Otherwise the match takes far too long on a file with many comments.
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:(?><!--.*?-->)\s*)*+(?:<!doctype\s+html|<html[\s>])",
    re.IGNORECASE | re.DOTALL,
)
_HTML_WITH_PARTS = re.compile(
    rb"(?:\xef\xbb\xbf)?(?>\s+|<\?xml[^>]*>|<!--.*?-->|<!doctype[^>]*>|<html[^>]*>)*+"
    rb"<(?:head|title|meta|link|style|script|body)[\s>/]",
    re.IGNORECASE | re.DOTALL,
)
_END_OF_HTML = re.compile(rb"</html\s*>", re.IGNORECASE)
_BESIDE_HTML = re.compile(rb"(?>\s+|<!--.*?-->|<script\b.*?</script\s*>)*+", re.IGNORECASE | re.DOTALL)
_PROLOGUE = r"<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>"
_ROOT = re.compile(rf"\s*(?:(?>{_PROLOGUE})\s*)*+<(?:[\w.-]+:)?([A-Za-z][\w.-]*)", re.DOTALL | re.IGNORECASE)
_ROOTS = {
    "tmx": Kind.TMX,
    "xliff": Kind.XLIFF,
    "dataset": Kind.TEST_SET,
    "srcset": Kind.SGM,
    "refset": Kind.SGM,
    "tstset": Kind.SGM,
    "mteval": Kind.SGM,
}
_PO = re.compile(rb'(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?:msgctxt|msgid|domain)[ \t]*"')
_MAGIC = {magic: Kind(f".{suffix}") for suffix, magics in signatures.FILES.items() for magic in magics}
_MAGIC |= {b"\xde\x12\x04\x95": Kind.MO, b"\x95\x04\x12\xde": Kind.MO}
_WORKBOOK_NAMES = (".xlsx", ".xlsm")
_WORKBOOK = re.compile(
    rb"PK\x03\x04.{26}(?:\[Content_Types\]\.xml|_rels/|docProps/|xl/(?:workbook|worksheets|_rels)\b)", re.DOTALL
)
"""First member of a workbook. A document of Word has the same, but no member of the folder xl."""
_TAR_MAGIC_AT = 257
_UNREADABLE_MAGIC = {b"7z\xbc\xaf\x27\x1c": "a 7z archive", b"Rar!\x1a": "a RAR archive", b"%PDF-": "a PDF document"}
_TABLES = {".tsv": Kind.TSV, ".tab": Kind.TSV, ".csv": Kind.CSV}
_JSON_LINES = (".jsonl", ".ndjson", ".jsonlines")
_TEXTS = (".txt", ".text")
_JSON_ARRAY = re.compile(r'\[\s*(?:\{\s*["}]|\[\s*"|\]\s*$)')
_JSON_OBJECT = re.compile(r'\{\s*(?:"|\}\s*$|\}\s*\n|$)')
JSON_RECORDS_BEGIN = re.compile(
    r'\s*\{(?:\s*"(?:[^"\\]|\\.)*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[-+.0-9eE]+|null|true|false)\s*,)*'
    r'\s*"(?P<name>(?:[^"\\]|\\.)*)"\s*:\s*(?=\[\s*\{)'
)
"""Beginning of a JSON object up to its first array of records, with nothing before it except single values."""
_LINES_LOOKED_AT = 100
_SHOWN = 60
_LINES_OF_HEADER = 5


def is_html(head: bytes) -> bool:
    """Return True if a file that begins with these bytes is an HTML page."""
    return bool(_HTML.match(head))


def looks_like(path: Path, side: FileSide = "both", name: str = "", *, alone: bool = False) -> Look:
    """Return the format and packing of a file, detected from its content.

    `name` is the name that the file's owner gave it. If it is empty, the name in `path` counts. With `alone`, any
    format may hold the side (see `kind_alone`).

    Raises:
        DataError: the file cannot be read, is an HTML page, has an unsupported format, or cannot hold that side.
    """
    with open_file(path) as stream:
        text, known_as = decoded(stream), name or path.name
        return Look(kind_alone(text, known_as) if alone else kind_of(text, known_as, side), stream.packing)


def kind_of(stream: ByteStream, name: str, side: FileSide) -> Kind:
    """Return the format of a text that holds a side or both sides. The stream stays at its beginning.

    Raises:
        DataError: the text is empty, is an HTML page, has an unsupported format, or cannot hold that side.
    """
    head = stream.peek()
    if not head:
        raise DataError(f"{stream.name}: the file is empty: fetch it again, or name one that holds text")
    if is_html(head) if side == "both" else is_html_page(head):
        raise DataError(
            f"{stream.name}: an HTML page, not a corpus: open the address in a browser, and name the file itself"
        )
    kind = _by_content(stream.name, head)
    if side == "both":
        kind = kind or _table_kind(head, name)
        if kind is None or kind is Kind.SGM:
            raise DataError(
                f"{stream.name}: holds one side of a corpus, not both (its first line, {_first_line(head)!r}, "
                "has no tab, and no table, JSON or known markup was recognised): name a file for each side, or give a "
                "table its suffix (.tsv, .csv, .jsonl)"
            )
        return kind
    if kind in _BOTH_SIDED:
        raise DataError(f"{stream.name}: a {kind} file holds both sides: make it the only address of the corpus")
    return kind or Kind.LINES


def _first_line(head: bytes) -> str:
    line = next((line for line in _decoded(head).split("\n") if line.strip()), "")
    return line[:_SHOWN].strip()


def kind_alone(stream: ByteStream, name: str) -> Kind:
    """Return the format of a text of which one side is read. The name tells tables from lines, which may hold tabs.

    Raises:
        DataError: the text is empty, is an HTML page, or has an unsupported format.
    """
    head = stream.peek()
    kind = None if is_html_page(head) or not head else _by_content(stream.name, head)
    if kind in (*_BOTH_SIDED, *ARCHIVES):
        return kind
    suffix = PurePosixPath(data_name(name)).suffix.casefold()
    if head and suffix in (".json", *_JSON_LINES):
        text = _decoded(head)
        lines = [line for line in text.split("\n")[:_LINES_LOOKED_AT] if line.strip()]
        return _json_kind(text, lines, suffix, len(head) < HEAD_BYTES) or kind_of(stream, name, "source")
    return _TABLES[suffix] if head and suffix in _TABLES else kind_of(stream, name, "source")


def data_name(name: str) -> str:
    """Return the last part of a name without the suffix of its packing: `a.en` of `folder/a.en.gz`."""
    return signatures.PACKED_SUFFIX.sub("", PurePosixPath(name).name)


def packing_by_name(name: str) -> str:
    """Return the packing that the suffix names: gz, zst, xz, bz2 or empty."""
    match = signatures.PACKED_SUFFIX.search(PurePosixPath(name).name)
    return match[1].casefold() if match else ""


def is_html_page(head: bytes) -> bool:
    """Return True if a file of lines is really an HTML page.

    Text may contain HTML too: messages of programs often do, with a page on each line.
    """
    if not is_html(head):
        return False
    end = _END_OF_HTML.search(head)
    if end and _BESIDE_HTML.fullmatch(head, end.end()):
        return True
    if end and b"\n" not in head[: end.start()].lstrip():
        return False
    return bool(_HTML_WITH_PARTS.match(head))


def kind_by_signs(head: bytes) -> Kind | None:
    """Return TMX, XLIFF, PO or a test set if a text begins as one of these does."""
    root = _ROOT.match(_decoded(head))
    return _ROOTS.get(root[1].casefold()) if root else Kind.PO if _PO.match(head) else None


def _by_content(name: str, head: bytes) -> Kind | None:
    for magic, what in _UNREADABLE_MAGIC.items():
        if head.startswith(magic):
            raise DataError(f"{name}: {what}, which is not supported: unpack or convert it, and name the text inside")
    if head[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return Kind.TAR
    for magic, kind_of_magic in _MAGIC.items():
        if head.startswith(magic):
            return Kind.XLSX if kind_of_magic is Kind.ZIP and _is_workbook(head, name) else kind_of_magic
    text = _decoded(head)
    root = _ROOT.match(text)
    kind = _ROOTS.get(root[1].casefold()) if root else None
    if kind is None and re.match(r"\s*<\?xml\s", text):
        what = f"with the root element <{root[1]}>" if root else "without a root element"
        raise DataError(
            f"{name}: XML {what}: convert it to TMX, XLIFF, or a WMT or IWSLT test set, the supported XML formats"
        )
    return kind or (Kind.PO if _PO.match(head) else None)


def _is_workbook(head: bytes, name: str) -> bool:
    """Return True if a zip archive is a workbook, by its name or by its first members."""
    is_called_so = name.casefold().endswith(_WORKBOOK_NAMES)
    return is_called_so or bool(_WORKBOOK.match(head) and b"xl/" in head)


def _decoded(head: bytes) -> str:
    return head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def _table_kind(head: bytes, name: str) -> Kind | None:
    """Return the format of a table, by its content and the suffix of its name, or None if it looks like plain text."""
    suffix = PurePosixPath(data_name(name)).suffix.casefold()
    text = _decoded(head)
    lines = [line for line in text.split("\n")[:_LINES_LOOKED_AT] if line.strip()]
    first = lines[0] if lines else ""
    is_table = suffix in _TABLES and ("\t" in first or suffix == ".csv")
    if not (is_table and _is_cut_up(first)) and (kind := _json_kind(text, lines, suffix, len(head) < HEAD_BYTES)):
        return kind
    if suffix in _TABLES:
        return _TABLES[suffix]
    if any("\t" in line for line in lines[:_LINES_OF_HEADER]):
        return Kind.TSV
    whole = lines if len(head) < HEAD_BYTES else lines[:-1] or lines
    return Kind.CSV if _is_csv(whole, suffix) else None


def _is_cut_up(first: str) -> bool:
    """Return True if a line that begins like JSON is not a whole value."""
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return False


def _json_kind(text: str, lines: list[str], suffix: str, is_whole: bool) -> Kind | None:
    """Return JSON for one value over the whole file, JSONL for an object on each line, or None for neither."""
    begin, first = text.lstrip(), lines[0].strip() if lines else ""
    if _JSON_ARRAY.match(begin) or (suffix == ".json" and begin.startswith("[")):
        return Kind.JSON
    if not _JSON_OBJECT.match(begin):
        return Kind.JSONL if suffix in _JSON_LINES else None
    if len(lines) > 1 and lines[1].lstrip().startswith("{"):
        is_wrapped = suffix == ".json" and JSON_RECORDS_BEGIN.match(begin) and _is_cut_up(first)
        return Kind.JSON if is_wrapped else Kind.JSONL
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        is_longer_line = "\n" not in begin.rstrip()
        is_wrapped = suffix == ".json" and bool(JSON_RECORDS_BEGIN.match(begin))
        return Kind.JSON if (not is_longer_line and suffix not in _JSON_LINES) or is_wrapped else Kind.JSONL
    values = record.values() if isinstance(record, dict) else []
    holds_records = any(isinstance(value, list) and value and isinstance(value[0], dict) for value in values)
    holds_columns = len(values) > 1 and all(isinstance(value, list | dict) for value in values)
    is_alone = is_whole and len(lines) == 1 and suffix not in _JSON_LINES
    return Kind.JSON if is_alone and (holds_records or holds_columns) else Kind.JSONL


def _is_csv(lines: list[str], suffix: str) -> bool:
    """Return True if lines with commas are a table: all have as many of them, and no space follows most of these.

    In a file that is called text, the first line must hold names too.
    """
    commas = Counter(line.count(",") for line in lines if '"' not in line)
    if not lines or "," not in lines[0]:
        return False
    looks_like_names = are_usual_names([field.strip('"\r ') for field in lines[0].split(",")])
    if suffix in _TEXTS:
        return looks_like_names and len(lines) > 1 and len(commas) == 1
    spaced = sum(line.count(", ") for line in lines)
    total = sum(line.count(",") for line in lines)
    return looks_like_names or (len(commas) <= 1 and 2 * spaced < total) or '","' in lines[0]
