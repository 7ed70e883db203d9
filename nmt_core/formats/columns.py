"""Find the columns of a table that hold the two sides."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from nmt_core.errors import DataError
from nmt_core.formats import column_names
from nmt_core.formats.layout import Layout

ROWS_LOOKED_AT = 4_096
"""Number of rows in which the column must appear at least once, where no header lists the columns."""

_LISTED = 20
_USUAL = frozenset({"source", "text"})
_LONGEST_NAME = 60
_SHOWN = 40
_NAME = re.compile(r"[^\W\d][\w.:()/-]*(?: [\w.:()/-]+){0,3}")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.:-]*(?: [\w.:-]+){0,2}")
_CASE_CHANGE = re.compile(r"([a-z0-9])([A-Z])")
_BETWEEN_WORDS = re.compile(r"[\s_.:/()\[\]-]+")
# Numbers, addresses, dates, hashes, and codes of languages and pairs.
_NO_TEXT = re.compile(
    r"[-+]?[0-9][0-9.,eE+-]*|(?:https?|ftp|file)://\S+|www\.\S+|[0-9]{4}-[0-9]{2}-[0-9]{2}\S*|[0-9a-fA-F]{16,64}"
    r"|(?:[a-z]{2,3}(?:[-_][A-Z][a-z]{3})?)(?:[-_][a-z]{2,3}(?:[-_][A-Z][a-z]{3})?)?"
)
_MOST_ODD = 0.9

Found = TypeVar("Found")


class NoColumnError(DataError):
    """Error for a row or a header that lacks a column. The next row may have it."""


class Sought(Generic[Found]):
    """A column that rows may lack. Bad rows may come first, so the first rows alone do not cause an error.

    `find` receives the columns of a row. It raises NoColumnError if the sought column is not among them.
    """

    def __init__(self, find: Callable[[Sequence[Any]], Found]) -> None:
        self._find = find
        self.found: Found | None = None
        self._rows = 0
        self._widest = -1
        self._error = NoColumnError()

    def among(self, columns: Sequence[Any]) -> Found | None:
        """Return `found`, the result of `find` for the first row that has the column, or None before such a row.

        Raises:
            DataError: none of the first rows has the column. The message lists the columns of the widest row.
        """
        if self.found is None:
            try:
                self.found = self._find(columns)
            except NoColumnError as error:
                self._rows += 1
                if len(columns) > self._widest:
                    self._widest, self._error = len(columns), error
                if self._rows == ROWS_LOOKED_AT:
                    raise self._error from None
        return self.found

    def require_found(self) -> None:
        """Check that the column was found. Call this after the last row.

        Raises:
            DataError: there were rows, and none has the column.
        """
        if self.found is None and self._rows:
            raise self._error


class Columns(NamedTuple):
    """Indexes of the columns that are read, from 0."""

    source: int
    target: int
    document: int | None = None
    """Column whose value changes where a document ends. None means that documents are not told apart."""

    @property
    def all(self) -> list[int]:
        """The columns in the order source, target, document."""
        return [self.source, self.target, *([] if self.document is None else [self.document])]


def columns_of_table(rows: Sequence[Sequence[str]], layout: Layout, place: str) -> tuple[Columns, bool]:
    """Return the columns of a table, and True if the first row is a header.

    `rows` are the first rows, at least one. Without a header, columns of numbers, addresses or language codes are not
    text: the first two others are the sides. See `find_columns` for tables with a header.

    Raises:
        NoColumnError: there are no two such columns, or the header lacks a column of the recipe.
    """
    if is_header(rows[0], layout):
        return find_columns(rows[0], layout, place), True
    document = None
    if layout.document_column:
        document = _asked((), layout.document_column, place)
    source, target = (
        _asked((), column, place) if column else None for column in (layout.source_column, layout.target_column)
    )
    if source is None or target is None:
        others = {source, target, document} - {None}
        text = [column for column in _text_columns(rows) if column not in others]
        if len(text) < (source is None) + (target is None):
            raise NoColumnError(
                f"{place}: no two columns of text: the first row holds {_cells(rows[0])}: set `source_column` and "
                "`target_column` to their numbers"
            )
        source = text.pop(0) if source is None else source
        target = text.pop(0) if target is None else target
    if source == target:
        raise _same_column(rows[0], layout, place)
    if len(rows[0]) > 2:
        _note(layout, source, target, [f"column {number}" for number in range(1, len(rows[0]) + 1)])
    return Columns(source, target, document), False


def find_columns(names: Sequence[str], layout: Layout, place: str, is_text: Sequence[bool] | None = None) -> Columns:
    """Return the columns of a table whose columns have the given names.

    A side's column is the one that the recipe names or numbers. Otherwise the names decide: languages (`en` and `de`,
    `translation.en`, `sentence_eng_Latn`, `English`), or else roles (`source` and `target`, `src` and `ref`).
    `is_text` tells which columns may hold text. None means any.

    Raises:
        NoColumnError: there is no such column, or both sides are in the same column.
        DataError: several columns fit equally well.
    """
    usable = [place for place in range(len(names)) if is_text is None or is_text[place]]
    asked = [
        _asked(names, column, place) if column else None for column in (layout.source_column, layout.target_column)
    ]
    source, target = asked
    if source is None or target is None:
        source, target = _by_name(names, usable, layout, place, (source, target))
    if source == target:
        raise _same_column(names, layout, place)
    document = _asked(names, layout.document_column, place) if layout.document_column else None
    _note(layout, source, target, names)
    return Columns(source, target, document)


def _same_column(names: Sequence[str], layout: Layout, place: str) -> NoColumnError:
    return NoColumnError(
        f"{place}: the columns of {layout.source_language} and {layout.target_language} cannot be told apart among "
        f"{some(names)}: set `source_column` and `target_column`"
    )


def _note(layout: Layout, source: int, target: int, names: Sequence[str]) -> None:
    """Report the columns that were taken, and the others, unless the recipe chose them or there are no others."""
    if layout.source_column and layout.target_column:
        return
    shown = [names[place] if place < len(names) else f"column {place + 1}" for place in (source, target)]
    others = [name for place, name in enumerate(names) if place not in (source, target)]
    layout.note(
        f"took {shown[0]!r} as source and {shown[1]!r} as target" + (f"; not used: {some(others)}" if others else "")
    )


def find_column(names: Sequence[str], asked: str, place: str, option: str = "--column") -> int:
    """Return the index, from 0, of one column in a table with named columns: the requested one, or `source` or `text`.

    `option` is the command-line option that requests the column.

    Raises:
        NoColumnError: there is no such column, or none was requested and none has a usual name.
        DataError: none was requested, and both `source` and `text` exist, or two columns have the requested name.
    """
    if asked in names:
        if names.count(asked) > 1:
            raise DataError(f"{place}: {names.count(asked)} columns are called {asked!r}: rename them, and name one")
        return names.index(asked)
    usual = [place for place, name in enumerate(names) if name.strip().casefold() in _USUAL]
    if not asked and len(usual) == 1:
        return usual[0]
    problem = f"no column {asked!r}" if asked else "no column, or more than one, is called source or text"
    # A row without a usual name may be a bad row. A row with two usual names proves that the user must choose.
    raise (NoColumnError if asked or not usual else DataError)(
        f"{place}: {problem}: there are {some(names)}; name one with {option}, or number it from 1 if the first row "
        "holds text and not names"
    )


def is_header(fields: Sequence[str], layout: Layout) -> bool:
    """Return True if the first row of a table holds the names of its columns.

    It does if the recipe names a column, if the names of both sides are in the row, or if it looks like names of other
    columns. A text that happens to be the code of one language is not enough.
    """
    asked = [column for column in (layout.source_column, layout.target_column, layout.document_column) if column]
    if any(not column.isdecimal() for column in asked):
        return True
    if any(len(field) > _LONGEST_NAME or "//" in field for field in fields):
        return False
    names = [words_of(field) for field in fields]
    usable = [place for place, field in enumerate(fields) if _NAME.fullmatch(field.strip())]
    if column_names.pairs_of_columns(names, usable, layout.source_language, layout.target_language):
        return True
    are_names = len(set(fields)) == len(fields) and all(map(_IDENTIFIER.fullmatch, map(str.strip, fields)))
    known = sum(column_names.is_known(name) for name in names)
    return are_names and known > 1 and (len(fields) > 2 or any("_" in field for field in fields))


def _asked(names: Sequence[str], asked: str, place: str) -> int:
    """Return the index of a column that the recipe names or numbers."""
    if asked in names:
        return names.index(asked)
    if asked.isdecimal() and int(asked):
        if names and int(asked) > len(names):
            raise NoColumnError(
                f"{place}: there is no column {asked} among {some(names)}: correct `source_column` and `target_column`"
            )
        return int(asked) - 1
    raise NoColumnError(f"{place}: no column {asked!r}: there are {some(names)}; correct the name in the recipe")


def _by_name(
    names: Sequence[str], usable: Sequence[int], layout: Layout, place: str, asked: tuple[int | None, int | None]
) -> tuple[int, int]:
    """Return the columns of both sides. `asked` holds the ones that the recipe chose."""
    words = [words_of(name) for name in names]
    languages = layout.source_language, layout.target_language
    if asked == (None, None):
        found = column_names.pairs_of_columns(words, usable, *languages)
    else:
        known, side = (asked[0], 1) if asked[1] is None else (asked[1], 0)
        others = [column for column in usable if column != known]
        singles = column_names.columns_of_side(words, others, languages[side], side)
        found = [(known, other) if side else (other, known) for other in singles]  # type: ignore[misc]
    if len(found) == 1:
        return found[0]
    if found:
        fitting = sorted({column for pair in found for column in pair})
        raise DataError(
            f"{place}: several columns may hold {languages[0]} and {languages[1]}: "
            f"{some([names[column] for column in fitting])}: set `source_column` and `target_column`"
        )
    hint = ", and machine translation is not taken" if any(map(column_names.is_machine, words)) else ""
    if len(usable) < len(names):
        hint += f"; no text is in {some([name for column, name in enumerate(names) if column not in usable])}"
    raise NoColumnError(
        f"{place}: no two columns are named after {languages[0]} and {languages[1]}, or source and target{hint}: there "
        f"are {some(names)}: set `source_column` and `target_column`"
    )


def are_usual_names(fields: Sequence[str]) -> bool:
    """Return True if all fields are likely names of columns."""
    return all(column_names.is_usual(words_of(field)) for field in fields)


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case: `sourceText`, `source-text` and `Source text` have the same."""
    apart = _CASE_CHANGE.sub(r"\1 \2", name.strip())
    return tuple(word.casefold() for word in _BETWEEN_WORDS.split(apart) if word)


def _text_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns that are not numbers, addresses, dates or codes in nearly all rows, in order."""
    width = max(map(len, rows))
    found = []
    for column in range(width):
        cells = [row[column].strip() for row in rows if len(row) > column]
        cells = [cell for cell in cells if cell]
        odd = sum(bool(_NO_TEXT.fullmatch(cell)) for cell in cells)
        if not cells or odd < _MOST_ODD * len(cells) or width <= 2:
            found.append(column)
    return found


def _cells(row: Sequence[str]) -> str:
    return "; ".join(f"{number}: {cell[:_SHOWN]}" for number, cell in enumerate(row[:_LISTED], 1))


def some(names: Sequence[str]) -> str:
    """Return the first of the names, for a message."""
    return (", ".join(names[:_LISTED]) or "none") + (", ..." if len(names) > _LISTED else "")
