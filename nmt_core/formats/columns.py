"""Find the columns of a table that hold the two sides."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from nmt_core.errors import DataError
from nmt_core.formats.languages import same_language
from nmt_core.formats.layout import Layout

ROWS_LOOKED_AT = 4_096
"""Number of rows in which the column must appear at least once, where no header lists the columns."""

_LISTED = 20
_USUAL = frozenset({"source", "text"})

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


def columns_of_table(first_row: Sequence[str], layout: Layout, place: str) -> tuple[int, int, bool]:
    """Return the indexes of the source and target columns, and True if the first row is a header.

    See `find_columns`.
    """
    has_header = _is_header(first_row, layout)
    # Without a header, a word that happens to be a language code is plain text.
    source, target = find_columns(first_row if has_header else None, layout, place)
    return source, target, has_header


def find_columns(names: Sequence[str] | None, layout: Layout, place: str) -> tuple[int, int]:
    """Return the indexes of the source and target columns, from 0.

    A column is the one that the recipe names or numbers, or else the one named after the language (`en`,
    `translation.en`), or else the first for the source and the second for the target. `names` lists all columns; None
    means that the names are unknown.

    Raises:
        NoColumnError: there is no such column, or both sides are in the same column.
    """
    found = (
        _find(names or (), layout.source_column, layout.source_language, 0, place),
        _find(names or (), layout.target_column, layout.target_language, 1, place),
    )
    if found[0] == found[1]:
        raise NoColumnError(
            f"{place}: the columns of {layout.source_language} and {layout.target_language} cannot be told apart among "
            f"{some(names or ())}: set `source_column` and `target_column`"
        )
    if names is not None and max(found) >= len(names):
        raise NoColumnError(
            f"{place}: there is no column {max(found) + 1} among {some(names)}: correct `source_column` and "
            "`target_column`"
        )
    return found


def find_column(names: Sequence[str], asked: str, place: str, option: str = "--column") -> int:
    """Return the index, from 0, of one column in a table with named columns: the requested one, or `source` or `text`.

    `option` is the command-line option that requests the column.

    Raises:
        NoColumnError: there is no such column, or none was requested and none has a usual name.
        DataError: none was requested, and both `source` and `text` exist.
    """
    if asked in names:
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


def _is_header(fields: Sequence[str], layout: Layout) -> bool:
    """Return True if the first row holds names: the recipe names a column, or both languages are in the row."""
    asked = [column for column in (layout.source_column, layout.target_column) if column]
    if any(not column.isdecimal() for column in asked):
        return True
    languages = layout.source_language, layout.target_language
    return all(any(same_language(field, language) for field in fields) for language in languages)


def _find(names: Sequence[str], asked: str, language: str, otherwise: int, place: str) -> int:
    if asked in names:
        return names.index(asked)
    if asked.isdecimal() and int(asked):
        return int(asked) - 1
    if asked:
        raise NoColumnError(f"{place}: no column {asked!r}: there are {some(names)}; correct the name in the recipe")
    named = (place for place, name in enumerate(names) if same_language(name.rpartition(".")[2], language))
    return next(named, otherwise)


def some(names: Sequence[str]) -> str:
    """Return the first of the names, for a message."""
    return (", ".join(names[:_LISTED]) or "none") + (", ..." if len(names) > _LISTED else "")
