"""Decide whether the quotes in a TSV file are data, or quote fields as in CSV.

Programs that quote do so consistently: pandas quotes each field that holds a quote, a tab or a line end, and doubles
the quotes in it. Excel quotes fields with a comma too. A single field that holds a quote and is not quoted is therefore
proof that quotes are data.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

_SAMPLE_CHARACTERS = 1 << 18
_LINES_BEFORE = 100  # to see how many fields a line has where there are no quotes
_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"(?=[\t\n]|\Z)|([^\t\n]*))([\t\n]|\Z)')
_FEWEST_RECORDS = 3  # in which all fields are quoted, without any other sign
_MOST_LINES = 100  # of one field


@dataclass
class _Signs:
    """Counts of what quotes do in a sample."""

    data: int = 0
    """Fields that hold a quote and are not quoted."""
    doubled: int = 0
    """Quoted fields that hold text and a doubled quote."""
    longer: int = 0
    """Quoted fields that hold a tab or a line end."""
    commas: int = 0
    """Quoted fields that hold a comma."""
    needless: int = 0
    """Quoted fields without any of these."""
    plain: int = 0
    """Fields without quotes."""
    plain_commas: int = 0
    """Fields without quotes that hold a comma."""
    widths: Counter[int] = field(default_factory=Counter)
    """Numbers of records by their number of fields."""

    def add(self, quoted: str | None, plain: str) -> None:
        """Count one field."""
        if quoted is None:
            self.data += '"' in plain
            self.plain += bool(plain)
            self.plain_commas += "," in plain
            return
        self.doubled += '""' in quoted and bool(quoted.strip('" '))
        self.longer += "\t" in quoted or "\n" in quoted
        self.commas += "," in quoted
        self.needless += not any(mark in quoted for mark in '"\t\n,')


def are_quoting(lines: pl.Series) -> bool | None:
    """Return True if quotes in these lines quote fields, False if they are data, and None if there is no sign."""
    if not lines.str.contains('"', literal=True).any():
        return None
    first = lines.str.contains('"', literal=True).arg_max() or 0
    text = "\n".join(lines.slice(max(0, first - _LINES_BEFORE), 10_000))[:_SAMPLE_CHARACTERS]
    signs = _signs_in(text)
    if signs.data:
        return False
    if signs.doubled or signs.longer:
        as_quotes, as_data = _share(signs.widths), _share(Counter(line.count("\t") + 1 for line in text.split("\n")))
        return as_quotes > as_data if signs.longer else as_quotes >= as_data
    is_like_excel = signs.commas and not signs.plain_commas and not signs.needless and signs.plain
    is_all_quoted = not signs.plain and signs.widths.total() >= _FEWEST_RECORDS
    return True if is_like_excel or is_all_quoted else None


def names_without(records: Sequence[Sequence[str]]) -> list[str]:
    """Return the fields of the first record, without quotes if it alone has them around each field.

    Some programs quote the names of columns and no text. The record may be text: then its quotes are data.
    """
    first, *others = records
    are_quoted = all(len(name) > 2 and name[0] == name[-1] == '"' and '"' not in name[1:-1] for name in first)
    if not are_quoted or any('"' in text for record in others for text in record):
        return list(first)
    return [name[1:-1] for name in first]


def _signs_in(text: str) -> _Signs:
    signs, position, width = _Signs(), 0, 0
    while position < len(text):
        match = _FIELD.match(text, position)
        assert match  # the second alternative matches anything
        quoted, plain = match[1], match[2] or ""
        if quoted is not None and quoted.count("\n") > _MOST_LINES:
            quoted, plain = None, '"'
        elif quoted is None and plain.startswith('"') and _is_open_at_the_end(text, position):
            break
        signs.add(quoted, plain)
        width += 1
        if match[3] != "\t":
            signs.widths[width] += 1
            width = 0
        position = max(match.end(), position + 1)
    return signs


def _is_open_at_the_end(text: str, position: int) -> bool:
    """Return True if the sample ends within the field that begins here, after a few lines."""
    rest = text[position + 1 :]
    return '"' not in rest and rest.count("\n") <= _MOST_LINES and len(text) == _SAMPLE_CHARACTERS


def _share(widths: Counter[int]) -> float:
    """Return the share of the records that have the most frequent number of fields."""
    return max(widths.values(), default=0) / max(1, widths.total())
