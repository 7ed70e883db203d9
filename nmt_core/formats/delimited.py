"""Read TSV and CSV. In CSV (RFC 4180), quoted fields may hold anything.

In TSV a quote is data, unless the file quotes fields consistently, as pandas and Excel do (see `quotes`).

A record of several lines is one row, even if one of the lines is not UTF-8 or holds a NUL. The row then has that fault.
An unmatched quote makes one row with a fault. Its record ends before a line of more than `max_line_bytes` bytes, after
`max_line_bytes` bytes, or after 10,000 lines. Reading resumes at the second line of the record.
"""

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain, islice

import polars as pl

from nmt_core.errors import counted
from nmt_core.formats import quotes
from nmt_core.formats.columns import Columns, columns_of_table
from nmt_core.formats.layout import Layout
from nmt_core.formats.lines import read_lines
from nmt_core.formats.rows import MISSING_COLUMN, TOO_LONG, Row, frames_of
from nmt_core.formats.streams import ByteStream

INVALID_CSV = "invalid_csv"

_Line = tuple[str, str | None, str | None, bytes | None]

_DELIMITERS = ",;\t|"
_EXCEL_HINT = re.compile(rb"(?:\xef\xbb\xbf)?sep=([,;\t|])\r?\n")  # a first line that tells Excel the delimiter
_MOST_LINES = 10_000
_LOOKED_AT = 100


def read_tsv(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield the pairs of a table with tabs between its columns.

    See `reader.read` for the tables and errors.
    """
    columns: Columns | None = None
    is_decided = False
    tables = read_lines(stream, layout.max_line_bytes)
    for rows in tables:
        if not is_decided:
            is_quoted = quotes.are_quoting(rows["text"])
            is_decided = is_quoted is not None
            if is_quoted:
                layout.note("fields are in quotes, as in CSV")
                csv_rows = _csv_rows(_lines_of(chain([rows], tables)), "\t", columns, layout, stream.name)
                yield from frames_of(csv_rows, layout.max_line_bytes)
                return
        if columns is None:
            blank = rows["text"].str.strip_chars(" \t\r") == ""
            if blank.all():
                yield _split(rows, 0, 1)
                continue
            first = blank.arg_min() or 0
            sample = [text.split("\t") for text in rows.filter(~blank)["text"].head(_LOOKED_AT)]
            sample[0] = quotes.names_without(sample)
            columns, has_header = columns_of_table(sample, layout, stream.name)
            rows = pl.concat([rows.head(first), rows.slice(first + int(has_header))])
        if rows.height:
            yield _split(rows, *columns)


def _split(rows: pl.DataFrame, source: int, target: int, document: int | None = None) -> pl.DataFrame:
    text, fault, value = pl.col("text"), pl.col("fault"), pl.col("value")
    columns = {"source": source, "target": target} | ({} if document is None else {"document": document})
    fields = rows.with_columns(field=text.str.split_exact("\t", max(columns.values()) + 1)).with_columns(
        **{name: pl.col("field").struct.field(f"field_{column}") for name, column in columns.items()}
    )
    missing = fault.is_null() & (pl.col("source").is_null() | pl.col("target").is_null())
    there = (text.str.count_matches("\t", literal=True) + 1).cast(pl.String)
    return fields.select(
        pl.col("source").fill_null(text),
        pl.col("target").fill_null(""),
        pl.when(missing).then(pl.lit(MISSING_COLUMN)).otherwise(fault).alias("fault"),
        pl.when(missing).then(there).otherwise(value).alias("value"),
        *list(columns)[2:],
    )


def read_csv(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield the pairs of a table by RFC 4180, with commas, semicolons or tabs as delimiters.

    See `reader.read` for the tables and errors.
    """
    if hint := _EXCEL_HINT.match(stream.peek()):
        stream.read(hint.end())
    delimiter = hint[1].decode() if hint else delimiter_of(stream, layout.max_line_bytes)
    lines = _lines_of(read_lines(stream, layout.max_line_bytes, with_bytes=True))
    yield from frames_of(_csv_rows(lines, delimiter, None, layout, stream.name), layout.max_line_bytes)


def _csv_rows(
    lines: Iterator[_Line], delimiter: str, columns: Columns | None, layout: Layout, place: str
) -> Iterator[Row]:
    """Yield the pairs of the records in the lines. `columns` are known if earlier rows have shown them."""
    records = iter(Records(lines, layout.max_line_bytes, delimiter))
    if columns is None:
        first = list(islice(records, _LOOKED_AT))
        blanks = next((place for place, record in enumerate(first) if not _is_blank(record)), len(first))
        if blanks < len(first):
            sample = [names_in(first[blanks], delimiter)]
            sample += [record for record in first[blanks + 1 :] if not isinstance(record, Row)]
            columns, has_header = columns_of_table(sample, layout, place)
            del first[blanks : blanks + int(has_header)]
        records = chain(first, records)
    source, target, document = columns or Columns(0, 1)
    last = max(source, target)
    for record in records:
        if isinstance(record, Row):
            yield record
        elif last >= len(record):
            yield Row(delimiter.join(record), "", MISSING_COLUMN, str(len(record)))
        elif document is None or document >= len(record):
            yield Row(record[source], record[target])
        else:
            yield Row(record[source], record[target], None, None, record[document])


def _is_blank(record: list[str] | Row) -> bool:
    return not isinstance(record, Row) and not any(field.strip() for field in record)


def names_in(first: list[str] | Row, delimiter: str) -> list[str]:
    """Return the column names in the first record, which may be the header even if it is not valid UTF-8."""
    if not isinstance(first, Row):
        return first
    try:
        return next(csv.reader([first.source], delimiter=delimiter), [])
    except csv.Error:  # a carriage return within a field without quotes
        return first.source.split(delimiter)


def delimiter_of(stream: ByteStream, max_line_bytes: int) -> str:
    """Return the delimiter that gives most of the first records the same number of fields, two or more.

    If several do so equally well, the one with the fewest fields that begin with a space wins: the others are
    punctuation.
    """
    head = stream.peek()
    whole = head[: head.rfind(b"\n") + 1] or head  # the last line may be incomplete
    ranks: dict[str, tuple[float, int]] = {}
    for mark in _DELIMITERS:
        records = list(islice(records_of(ByteStream(stream.name, BytesIO(whole)), max_line_bytes, mark), _LOOKED_AT))
        tables = [record for record in records if not isinstance(record, Row) and len(record) > 1]
        alike = max(Counter(map(len, tables)).values(), default=0)
        spaces = sum(field.startswith(" ") for record in tables for field in record[1:])
        ranks[mark] = (-alike / len(records) if records else 0.0, spaces)
    return min(_DELIMITERS, key=ranks.__getitem__)


def records_of(stream: ByteStream, max_line_bytes: int, delimiter: str) -> "Records":
    """Return the records of a CSV file."""
    return Records(_lines_of(read_lines(stream, max_line_bytes, with_bytes=True)), max_line_bytes, delimiter)


def _lines_of(tables: Iterable[pl.DataFrame]) -> Iterator[_Line]:
    """Yield the lines of tables of `read_lines`, with or without their bytes."""
    for table in tables:
        yield from table.rows() if "raw" in table.columns else ((*line, None) for line in table.rows())


class Records:
    """Records in the lines of a CSV file. A faulty record is a Row instead of a list of fields.

    `raw` holds the bytes of a record that is not UTF-8, with "\\n" at the end of each line.
    """

    def __init__(self, lines: Iterator[_Line], max_line_bytes: int, delimiter: str) -> None:
        self._max_line_bytes = max_line_bytes
        self._delimiter = delimiter
        self._lines = lines
        self._again: deque[_Line] = deque()
        self._record: list[_Line] = []
        self._is_faulty = False
        """True if a line of the current record has a fault."""
        self.raw: bytes | None = None
        csv.field_size_limit(max(csv.field_size_limit(), max_line_bytes))

    def __iter__(self) -> Iterator[list[str] | Row]:
        while True:
            # Each fault needs a new reader: the old one is still inside quotes.
            reader = csv.reader(self._pull(), delimiter=self._delimiter, strict=True)
            try:
                for fields in reader:
                    yield self._taken() if self._is_faulty else fields
                    self._record.clear()
                return
            except (csv.Error, _FaultyLineError) as error:
                self._again.extendleft(reversed(self._record[1:]))
                del self._record[1:]
                yield self._taken(f"{error}")
                self._record.clear()

    def _taken(self, problem: str = "") -> Row:
        """Return the record as a row, with the first fault of its lines or else with its own problem."""
        lines, self._is_faulty = self._record, False
        text = "\n".join(text for text, *_ in lines)
        fault, value = next(((fault, value) for _, fault, value, _ in lines if fault), (INVALID_CSV, problem))
        is_text = all(raw is None for *_, raw in lines)
        self.raw = None if is_text else b"\n".join(text.encode() if raw is None else raw for text, *_, raw in lines)
        return Row(text, "", fault, value)

    def _pull(self) -> Iterator[str]:
        size = 0
        while line := self._again.popleft() if self._again else next(self._lines, None):
            text, fault, *_ = line
            if not self._record:
                size = 0
            self._record.append(line)
            size += len(text) + 1
            if fault:
                self._is_faulty = True
            if fault == TOO_LONG:
                raise _FaultyLineError("a quote without its partner, before a line that is too long")
            if size > self._max_line_bytes or len(self._record) > _MOST_LINES:
                raise _FaultyLineError(f"a quote without its partner in {counted(len(self._record), 'line')}")
            yield text + "\n"


class _FaultyLineError(Exception):
    """Error that ends the current record."""
