"""Define the rows that every reader yields: the text, and the fault of a row that cannot be used.

A fault is the name of a reason. Its value is the measurement that decided, for the report. The text of a faulty row
is the part of it that can be shown.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import polars as pl

INVALID_UTF8, NULL_BYTE, TOO_LONG = "invalid_utf8", "null_byte", "too_long_line"
MISSING_COLUMN, MISSING_VALUE, MISSING_LANGUAGE = "missing_column", "missing_value", "missing_language"
UNTRANSLATED = "untranslated"
DOCUMENT_END = "document_end"
"""Fault of a blank line between two documents."""

FRAME_ROWS = 50_000
"""Largest number of rows in a table."""

SIDE_SCHEMA = {"text": pl.String, "fault": pl.String, "value": pl.String}
"""Columns of a table with one side of a corpus."""

PAIR_SCHEMA = {"source": pl.String, "target": pl.String, "fault": pl.String, "value": pl.String}
"""Columns of a table with both sides. The fault may belong to either side.

A table may have another column `document` (String): the name of the document that holds the pair, or null.
"""

_ROWS_AT_A_TIME = 10_000
_SHOWN_BYTES = 200


class Row(NamedTuple):
    """A pair, for the readers that work row by row."""

    source: str
    target: str
    fault: str | None = None
    value: str | None = None
    document: str | None = None


class Text:
    """Text that arrives in pieces. Pieces after the longest allowed line are counted but not kept."""

    def __init__(self, max_line_bytes: int) -> None:
        self._most = max_line_bytes
        self._pieces: list[str] = []
        self._kept = 0
        self.bytes = 0

    def add(self, piece: str) -> None:
        """Append a piece."""
        self.bytes += len(piece) if piece.isascii() else len(piece.encode("utf-8", "surrogatepass"))
        if self._kept <= self._most:
            self._pieces.append(piece)
            self._kept += len(piece)

    def __str__(self) -> str:
        return "".join(self._pieces)

    @property
    def is_too_long(self) -> bool:
        return self.bytes > self._most


def row_of(source: Text | None, target: Text | None, fault: str | None = None, value: str | None = None) -> Row:
    """Return a pair with its fault, without white space at the ends of its sides.

    A pair that lacks the text of a side has the fault `untranslated`.
    """
    texts = tuple(str(side).strip(" \t\r\n") if side else "" for side in (source, target))
    too_long = next((side for side in (source, target) if side and side.is_too_long), None)
    if fault is None and too_long:
        fault, value = TOO_LONG, str(too_long.bytes)
    elif fault is None and not all(texts):
        fault = UNTRANSLATED
    return Row(texts[0], texts[1], fault, value)


def shown(too_long: bytes, max_line_bytes: int) -> str:
    """Return the beginning of an overlong text, for a report."""
    return too_long[: min(_SHOWN_BYTES, max_line_bytes)].decode("utf-8", "replace")


def explain_invalid(error: UnicodeDecodeError) -> str:
    """Return the value of the fault `invalid_utf8`: the first invalid byte and its position, counted from 1."""
    return f"byte {error.start + 1}: {error.object[error.start : error.end].hex()}"


def frames_of(rows: Iterable[Row], max_line_bytes: int) -> Iterator[pl.DataFrame]:
    """Yield tables of the rows, and add the faults that a text may have in any format."""
    remaining = iter(rows)
    while taken := list(islice(remaining, _ROWS_AT_A_TIME)):
        table = pl.DataFrame(taken, schema=PAIR_SCHEMA | {"document": pl.String}, orient="row")
        yield checked_pairs(table, max_line_bytes).with_columns(table["document"])


def checked_pairs(pairs: pl.DataFrame, max_line_bytes: int) -> pl.DataFrame:
    """Return the pairs, and mark faults in pairs that have none yet: a side is too long or holds a NUL."""
    sides = [
        checked(pairs.select(pl.col(side).alias("text"), "fault", "value"), max_line_bytes)
        for side in ("source", "target")
    ]
    return paired(*sides)


def checked(side: pl.DataFrame, max_line_bytes: int) -> pl.DataFrame:
    """Return the texts of one side, and mark faults in texts that have none yet: too long, or a NUL in it."""
    text = side["text"]
    sizes = text.str.len_bytes()
    too_long, has_null = sizes > max_line_bytes, text.str.contains("\0", literal=True)
    if not too_long.any() and not has_null.any():
        return side
    first_null = text.str.find("\0", literal=True) + 1
    fault = pl.when(too_long).then(pl.lit(TOO_LONG)).when(has_null).then(pl.lit(NULL_BYTE))
    decided = pl.when(too_long).then(sizes.cast(pl.String)).when(has_null).then("byte " + first_null.cast(pl.String))
    new = pl.col("fault").is_null()
    return side.select(
        # An overlong text is dropped with its fault, so only its beginning is kept in memory.
        pl.when(too_long).then(pl.col("text").str.head(_SHOWN_BYTES)).otherwise(pl.col("text")).alias("text"),
        pl.when(new).then(fault).otherwise(pl.col("fault")).alias("fault"),
        pl.when(new).then(decided).otherwise(pl.col("value")).alias("value"),
    )


def paired(source: pl.DataFrame, target: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of two sides of equal height. The fault is the source's, or else the target's."""
    faults = [source["fault"], target["fault"]]
    if all(fault.null_count() == source.height for fault in faults):
        fault, value = source["fault"], source["value"]
    else:
        first = faults[0].is_not_null()
        fault, value = faults[0].zip_with(first, faults[1]), source["value"].zip_with(first, target["value"])
    return pl.DataFrame({"source": source["text"], "target": target["text"], "fault": fault, "value": value})
