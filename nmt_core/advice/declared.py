"""Read the languages that a file with both sides declares, without reading all of it."""

import json
import re
import zipfile
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.advice.corpora import Pair, directed, language_of_name
from nmt_core.config.language_codes import is_code, parse_tag
from nmt_core.errors import ConfigError, DataError
from nmt_core.formats import Kind, Layout, column_names, json_file, spreadsheets, tars
from nmt_core.formats.charsets import decoded
from nmt_core.formats.columns import is_header, words_of
from nmt_core.formats.delimited import delimiter_of, names_in, records_of
from nmt_core.formats.jsonl import names_of, paths_of
from nmt_core.formats.kinds import kind_of
from nmt_core.formats.lines import read_lines
from nmt_core.formats.streams import ByteStream, open_file

_LONGEST_LINE = 1 << 20
_MOST_COLUMNS = 40
_DECLARED = {
    Kind.TMX: (re.compile(rb"<tuv\b[^>]*?\b(?:xml:)?lang\s*=\s*[\"']([\w-]+)"),),
    Kind.XLIFF: (
        re.compile(rb"\b(?:source-language|srcLang)\s*=\s*[\"']([\w-]+)"),
        re.compile(rb"\b(?:target-language|trgLang)\s*=\s*[\"']([\w-]+)"),
    ),
    Kind.PO: (
        re.compile(rb"X-Source-Language:[ \t]*([\w@-]+)"),
        re.compile(rb"[\"\n]Language:[ \t]*([\w@-]+)"),
    ),
    Kind.TEST_SET: (
        re.compile(rb"<src\b[^>]*\blang\s*=\s*[\"']([\w-]+)"),
        re.compile(rb"<ref\b[^>]*\blang\s*=\s*[\"']([\w-]+)"),
    ),
}
"""Patterns of the languages in mark-up: of both sides, or of the source and of the target."""
_DECLARED[Kind.MO] = _DECLARED[Kind.PO]


def declared(path: Path, encoding: str = "") -> Pair:
    """Return the languages of the source and of the target that a file declares. An empty one is not declared.

    Raises:
        NmtError: the file cannot be read, or declares more than two languages.
    """
    with open_file(path) as stream:
        text = decoded(stream, encoding)
        kind = kind_of(text, path.name, "both")
        if kind in _DECLARED:
            return _by_markup(kind, text.peek(), path)
        if kind in (Kind.ZIP, Kind.TAR):
            return _by_members(path)
        return _by_columns(kind, text, path)


def _by_markup(kind: Kind, head: bytes, path: Path) -> Pair:
    patterns = _DECLARED[kind]
    if len(patterns) == 2:
        found = [pattern.search(head) for pattern in patterns]
        source, target = (_code(match[1]) if match else "" for match in found)
        return source, target
    languages = list(dict.fromkeys(filter(None, (_code(tag) for tag in patterns[0].findall(head)))))
    if len(languages) > 2:
        raise _too_many(path, languages)
    if len(languages) < 2:
        return "", ""
    return languages[0], languages[1]


def _code(tag: bytes) -> str:
    parsed = parse_tag(tag.decode("latin-1"))
    return parsed.language if parsed and is_code(parsed.language) else ""


def _by_members(path: Path) -> Pair:
    """Return the languages of the two members of an archive, as in the archives of OPUS."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        names = [entry.name for entry in tars.entries(path)]
    languages = list(dict.fromkeys(filter(None, (language_of_name(Path(name)) for name in names))))
    if len(languages) > 2:
        raise _too_many(path, languages)
    return directed((languages[0], languages[1])) if len(languages) == 2 else ("", "")


def _by_columns(kind: Kind, stream: ByteStream, path: Path) -> Pair:
    """Return the languages after which two columns are named, in the order of the columns."""
    names = _columns(kind, stream, path)[:_MOST_COLUMNS]
    words = [words_of(name) for name in names]
    has_names = kind not in (Kind.TSV, Kind.CSV, Kind.XLSX)
    found: list[Pair] = []
    for source, target in permutations(column_names.languages_named(words), 2):
        if not has_names and not is_header(names, Layout(source, target)):
            continue
        for first, second in column_names.pairs_of_columns(words, range(len(names)), source, target):
            if first < second:
                found.append((source, target))
    found = list(dict.fromkeys(found))
    if len(found) > 1:
        raise _too_many(path, list(dict.fromkeys(language for pair in found for language in pair)))
    return found[0] if found else ("", "")


def _columns(kind: Kind, stream: ByteStream, path: Path) -> list[str]:
    """Return the names of the columns of a table, or its first row if it has no header."""
    if kind is Kind.PARQUET:
        try:
            with pq.ParquetFile(path) as file:
                return [file.schema.column(number).path for number in range(len(file.schema))]
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: the Parquet file is truncated or damaged ({error}): write it again") from None
    if kind is Kind.XLSX:
        row = next(spreadsheets.cells_of(stream), ())
        return [spreadsheets.as_text(cell) or "" for cell in row]
    if kind is Kind.CSV:
        delimiter = delimiter_of(stream, _LONGEST_LINE)
        first = next(iter(records_of(stream, _LONGEST_LINE, delimiter)), None)
        return names_in(first, delimiter) if first else []
    if kind is Kind.JSON:
        record = next(iter(json_file.records(stream, _LONGEST_LINE)), None)
        return names_of(list(paths_of(record))) if isinstance(record, dict) else []
    lines = next(read_lines(stream, _LONGEST_LINE))["text"]
    first_line = next((line for line in lines if line.strip()), "")
    if kind is Kind.TSV:
        return [name.strip('" ') for name in first_line.split("\t")]
    try:
        record = json.loads(first_line)
    except (ValueError, RecursionError):
        return []
    return names_of(list(paths_of(record))) if isinstance(record, dict) else []


def _too_many(path: Path, languages: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{path}: holds text in {', '.join(languages)}: choose two of them, the source first, as in --languages "
        f"{languages[0]}-{languages[1]}"
    )
