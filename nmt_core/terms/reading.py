"""Read files of terms: tables with a source and a target, and lists of terms that stay as they are."""

import csv
import io
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from nmt_core.config import LanguagesConfig
from nmt_core.config.language_codes import fit, is_code
from nmt_core.errors import DataError, NmtError, shown, words_of
from nmt_core.formats import column_names
from nmt_core.formats.charsets import decoded
from nmt_core.formats.columns import words_of as words_of_name
from nmt_core.formats.delimited import delimiter_of
from nmt_core.formats.kinds import data_name
from nmt_core.formats.streams import ByteStream, unpacked
from nmt_core.store.storage import local_path, store_of
from nmt_core.terms.glossary import Term, require_no_conflicts, terms_from

_MOST_BYTES = 256 << 20
_CASES = {"exact": True, "yes": True, "true": True, "1": True, "any": False, "no": False, "false": False, "0": False}
_FORMS = {"inflected": True, "yes": True, "true": True, "1": True, "as_given": False, "no": False, "false": False}
_FORMS["0"] = False
_SOURCES = frozenset({("source",), ("src",), ("term",), ("source", "term")})
_TARGETS = frozenset({("target",), ("tgt",), ("trg",), ("translation",), ("target", "term")})


class _Columns(NamedTuple):
    source: int = 0
    target: int | None = 1
    case: int | None = None
    forms: int | None = None


class _Row(NamedTuple):
    place: str
    fields: list[str]

    def field(self, column: int | None) -> str:
        return self.fields[column].strip() if column is not None and column < len(self.fields) else ""


def read_terms(
    glossary: str, keep_terms: str, languages: LanguagesConfig, *, inflected: bool = False
) -> tuple[Term, ...]:
    """Return the terms of a glossary and of a list of terms to keep.

    Args:
        glossary: path or address of a table with sources and targets. Empty means none.
        keep_terms: path or address of a list of terms that stay as they are. Empty means none.
        languages: source and target language, which may be the names of the columns.
        inflected: True finds inflected forms of the sources, unless the glossary says otherwise.

    Raises:
        DataError: a file cannot be read, has no terms, or two terms conflict.
    """
    placed: list[tuple[Term, str]] = []
    for file, is_list in ((glossary, False), (keep_terms, True)):
        if file:
            terms = list(_terms_in(file, languages, is_list=is_list, inflected=inflected))
            if not terms:
                raise DataError(
                    f"{file}: has no terms: give a source and its translation on each line, or another file"
                )
            placed += terms
    require_no_conflicts(placed)
    return tuple(dict.fromkeys(term for term, _ in placed))


def _terms_in(file: str, languages: LanguagesConfig, *, is_list: bool, inflected: bool) -> Iterator[tuple[Term, str]]:
    rows = [row for row in _rows(file, is_list=is_list) if any(map(str.strip, row.fields))]
    columns = _columns_of(rows[0], languages) if rows else None
    if columns:
        del rows[0]
    columns = columns or _Columns()
    if is_list:
        columns = columns._replace(target=None)
    for row in rows:
        if not row.field(columns.source):
            raise DataError(f"{row.place}: no source in {shown(row.fields)}: give the term, or remove the line")
        exact_case = _flag(row, columns.case, "case", _CASES)
        forms = _flag(row, columns.forms, "forms", _FORMS)
        source, target = row.field(columns.source), row.field(columns.target)
        for term in terms_from(source, target, exact_case=exact_case, inflected=inflected if forms is None else forms):
            yield term, row.place


def _flag(row: _Row, column: int | None, name: str, values: dict[str, bool]) -> bool | None:
    """Return the value of an optional column, or None if the cell is empty."""
    text = row.field(column)
    if text and text.casefold() not in values:
        first, second = next(iter(values)), next(value for value, is_on in values.items() if not is_on)
        raise DataError(f"{row.place}: {name}={text!r}: must be {first} or {second}, or empty")
    return values[text.casefold()] if text else None


def _columns_of(first: _Row, languages: LanguagesConfig) -> _Columns | None:
    """Return the columns that the first row names, or None if it is a term.

    Raises:
        DataError: the row names languages, and not the languages of the model.
    """
    names = [words_of_name(field) for field in first.fields]
    case = next((place for place, name in enumerate(names) if name[:1] == ("case",)), None)
    forms = next((place for place, name in enumerate(names) if name in (("forms",), ("inflected",))), None)
    others = [place for place in range(len(names)) if place not in (case, forms)]
    sources, targets = ([place for place in others if names[place] in known] for known in (_SOURCES, _TARGETS))
    if sources and (targets or len(others) == 1):
        return _Columns(sources[0], targets[0] if targets else None, case, forms)
    pairs = column_names.pairs_of_columns(names, others, languages.source, languages.target)
    if pairs:
        return _Columns(*pairs[0], case, forms)
    codes = ["_".join(names[place]) for place in others if names[place]]
    fits = [any(fit(code, one) for one in (languages.source, languages.target)) for code in codes]
    if len(codes) > 1 and any(fits) and all(is_code(code.partition("_")[0]) for code in codes):
        raise DataError(
            f"{first.place}: the columns are {', '.join(first.fields)}, but the model translates from "
            f"{languages.source} to {languages.target}: name these two columns, or call them source and target"
        )
    if case is not None or forms is not None:
        raise DataError(
            f"{first.place}: no column for the terms among {', '.join(first.fields)}: call them source and target, or "
            f"{languages.source} and {languages.target}"
        )
    return None


def _rows(file: str, *, is_list: bool) -> Iterator[_Row]:
    """Yield the rows of a table. A list has one term on each line, and a quote in it is data."""
    content = _content(file)
    is_csv = PurePosixPath(data_name(file)).suffix.casefold() == ".csv" and not is_list
    delimiter = delimiter_of(ByteStream(file, io.BytesIO(content)), _MOST_BYTES) if is_csv else "\t"
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{file}, line {number:,}: is not UTF-8: save the file as UTF-8") from None
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if is_list else csv.QUOTE_MINIMAL)
    try:
        for fields in reader:
            yield _Row(f"{file}, line {reader.line_num:,}", fields)
    except csv.Error as error:
        raise DataError(f"{file}, line {reader.line_num:,}: cannot be read ({error}): correct the line") from None


def _content(file: str) -> bytes:
    """Return the text of a file at a path or an address, unpacked and in UTF-8 where its charset is recognised."""
    try:
        if path := local_path(file):
            content = path.expanduser().read_bytes()
        else:
            store, name = store_of(file)
            content = bytes(store.cat_file(name))
    except NmtError:
        raise
    except Exception as error:  # each kind of store raises its own errors
        problem = error.strerror if isinstance(error, OSError) and error.strerror else words_of(error)
        raise DataError(f"{file}: cannot be read ({problem}): check the path of the glossary") from None
    stream = decoded(unpacked(ByteStream(file, io.BytesIO(content))))
    return b"".join(iter(lambda: stream.read(1 << 20), b""))
