"""Which columns of a table hold the two sides."""

from collections.abc import Sequence

from nmt_core.corpus.formats.languages import same_language
from nmt_core.corpus.formats.layout import Layout
from nmt_core.errors import DataError

_LISTED = 20
_USUAL = frozenset({"source", "text"})


def columns_of_table(first_row: Sequence[str], layout: Layout, place: str) -> tuple[int, int, bool]:
    """Places of the source and the target column, and whether the first row is a header; see `find_columns`."""
    has_header = _is_header(first_row, layout)
    # Without a header, a word that happens to be the code of a language means nothing.
    source, target = find_columns(first_row if has_header else None, layout, place)
    return source, target, has_header


def find_columns(names: Sequence[str] | None, layout: Layout, place: str) -> tuple[int, int]:
    """Places of the source and the target column, from 0. `names` are those of all columns; None: nobody knows them.

    The column that the recipe names, or numbers; else the one with the language's name (`en`, `translation.en`);
    else the first for the source and the second for the target.

    Raises:
        DataError: there is no such column, or both sides are in the same.
    """
    found = (
        _find(names or (), layout.source_column, layout.source_language, 0, place),
        _find(names or (), layout.target_column, layout.target_language, 1, place),
    )
    if found[0] == found[1]:
        raise DataError(
            f"{place}: the columns of {layout.source_language} and {layout.target_language} cannot be told apart among "
            f"{_some(names or ())}: set `source_column` and `target_column`"
        )
    if names is not None and max(found) >= len(names):
        raise DataError(
            f"{place}: there is no column {max(found) + 1} among {_some(names)}: correct `source_column` and "
            "`target_column`"
        )
    return found


def find_column(names: Sequence[str], asked: str, place: str, option: str = "--column") -> int:
    """Place of one column, from 0, in a table whose columns have names: the one asked for, else `source` or `text`.

    `option`: by which to ask for it.

    Raises:
        DataError: there is no such column, or nobody asked for one and none has such a name.
    """
    if asked in names:
        return names.index(asked)
    usual = [place for place, name in enumerate(names) if name.strip().casefold() in _USUAL]
    if not asked and len(usual) == 1:
        return usual[0]
    problem = f"no column {asked!r}" if asked else "no column, or more than one, is called source or text"
    raise DataError(
        f"{place}: {problem}: there are {_some(names)}; name one with {option}, or number it from 1 if the first row "
        "holds text and not names"
    )


def _is_header(fields: Sequence[str], layout: Layout) -> bool:
    """Whether the first row of a table holds names: the recipe names a column, or both languages are in it."""
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
        raise DataError(f"{place}: no column {asked!r}: there are {_some(names)}; correct the name in the recipe")
    named = (place for place, name in enumerate(names) if same_language(name.rpartition(".")[2], language))
    return next(named, otherwise)


def _some(names: Sequence[str]) -> str:
    return (", ".join(names[:_LISTED]) or "none") + (", ..." if len(names) > _LISTED else "")
