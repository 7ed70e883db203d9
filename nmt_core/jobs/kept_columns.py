"""Carry columns of the input over to the output, with their types (`--keep`).

The text of a file is read by `formats.single`. A second reader takes the other columns of the same rows from the same
file, so that a job without them reads no more than before. Each chunk has a file with its rows of these columns:

- for Parquet, a column of the same type for each column of the input;
- for other formats, one column of JSON objects, of which each has the values of its row by name. Rows without columns,
  such as invalid JSON, have an empty object.
"""

import base64
import datetime
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nmt_core.errors import DataError
from nmt_core.formats import Kind
from nmt_core.formats.columns import some
from nmt_core.formats.delimited import delimiter_of, names_in, records_of
from nmt_core.formats.lines import read_lines
from nmt_core.formats.rows import Row
from nmt_core.formats.single import Columns, has_header, kind_by_name
from nmt_core.formats.streams import ByteStream
from nmt_core.jobs.inputs import InputFile, open_input
from nmt_core.jobs.order import MAX_LINE_BYTES
from nmt_core.jobs.reading import decoded

ALL = ("all",)
"""Value of `Order.keep` for all columns except the text and the prefix."""
JSON_COLUMN = "json"
"""Column of a chunk's file that holds JSON objects. No other column is in the file then."""

_SCHEMA = pa.schema([pa.field(JSON_COLUMN, pa.string(), nullable=False, metadata={"kept": "json"})])
_PARQUET = b"PAR1\x15"
_ROWS_AT_A_TIME = 1_024
_USUAL = ("source", "text")


class KeptReader(Protocol):
    """Reader of the columns of a file, row by row."""

    def take(self, rows: int) -> pa.Table:
        """Return the next rows."""

    def end(self) -> None:
        """Check, after the last row, that every column was found."""


@contextmanager
def kept_reader(file: InputFile, columns: Columns, keep: Sequence[str]) -> Iterator[KeptReader]:
    """Open a file to read the columns to keep.

    Raises:
        DataError: the file has no such column, or is a text, which has no columns.
    """
    with open_input(file) as opened:
        if opened.peek(8).startswith(_PARQUET):
            with pq.ParquetFile(opened.path or opened.file) as parquet:
                yield _ParquetRows(parquet, opened.name, columns, keep)
            return
        kind, stream = kind_by_name(file.name), decoded(opened)
        if kind is Kind.LINES:
            raise DataError(f"{file.url}: is a text, which has no columns to keep: leave out --keep")
        rows = _json_objects(stream, columns, keep) if kind is Kind.JSONL else _table_rows(stream, kind, columns, keep)
        yield _JsonRows(rows)


def is_json(schema: pa.Schema) -> bool:
    """Return True if the file of a chunk holds JSON objects."""
    return schema.names == [JSON_COLUMN] and bool(schema.field(0).metadata == {b"kept": b"json"})


class _JsonRows:
    def __init__(self, rows: Iterator[dict[str, Any]]) -> None:
        self._rows = rows

    def take(self, rows: int) -> pa.Table:
        lines = [json.dumps(row) for row in islice(self._rows, rows)]
        return pa.Table.from_arrays([pa.array(lines, pa.string())], schema=_SCHEMA)

    def end(self) -> None:
        for _ in self._rows:
            pass


def _json_objects(stream: ByteStream, columns: Columns, keep: Sequence[str]) -> Iterator[dict[str, Any]]:
    missing = set() if tuple(keep) == ALL else set(keep)
    names = dict.fromkeys(keep, ())
    has_rows = False
    for table in read_lines(stream, MAX_LINE_BYTES):
        for text, fault, _ in table.iter_rows():
            record = None if fault else _record(text)
            if record is None:
                yield {}
                continue
            has_rows = True
            if tuple(keep) == ALL:
                yield {name: record[name] for name in _others(list(record), columns)}
                continue
            values = {name: _at(record, name) for name in names}
            missing -= {name for name, (is_there, _) in values.items() if is_there}
            yield {name: value for name, (_, value) in values.items()}
    if missing and has_rows:
        raise DataError(f"{stream.name}: no row has {some(sorted(missing))}: correct the names in --keep")


def _record(text: str) -> dict[str, Any] | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _at(record: dict[str, Any], name: str) -> tuple[bool, Any]:
    """Return True if an object has a value of this name, or at this path, and the value."""
    if name in record:
        return True, record[name]
    first, dot, rest = name.partition(".")
    inner = record.get(first)
    return _at(inner, rest) if dot and isinstance(inner, dict) else (False, None)


def _table_rows(stream: ByteStream, kind: Kind, columns: Columns, keep: Sequence[str]) -> Iterator[dict[str, Any]]:
    records = _tsv_records(stream) if kind is Kind.TSV else _csv_records(stream)
    first = next(records, None)
    if first is None:
        return
    is_named = has_header(columns.text)
    names = first if is_named else [str(number) for number in range(1, len(first or ()) + 1)]
    places = dict(_chosen(names, columns, keep, stream.name))
    for record in records if is_named else chain([first], records):
        yield {name: record[place] if place < len(record) else None for name, place in places.items()} if record else {}


def _tsv_records(stream: ByteStream) -> Iterator[list[str]]:
    for table in read_lines(stream, MAX_LINE_BYTES):
        for text, fault, _ in table.iter_rows():
            yield [] if fault else text.split("\t")


def _csv_records(stream: ByteStream) -> Iterator[list[str]]:
    delimiter = delimiter_of(stream, MAX_LINE_BYTES)
    is_first = True
    for record in records_of(stream, MAX_LINE_BYTES, delimiter):
        if isinstance(record, Row):
            yield names_in(record, delimiter) if is_first else []
        else:
            yield record or [""]
        is_first = False


class _ParquetRows:
    def __init__(self, file: pq.ParquetFile, name: str, columns: Columns, keep: Sequence[str]) -> None:
        top = list(file.schema_arrow.names)
        if tuple(keep) == ALL:
            self._paths = [(column, [column]) for column in _others(top, columns)]
        else:
            known = {".".join(path): path for path in _paths(file.schema_arrow)}
            if absent := [column for column in keep if column not in known]:
                raise _no_column(absent, list(known), name)
            self._paths = [(column, list(known[column])) for column in keep]
        column_names = sorted({".".join(path) for _, path in self._paths})
        self._batches = file.iter_batches(_ROWS_AT_A_TIME, columns=column_names)
        self._left = pa.table(
            {column: pa.array([], self._type(file.schema_arrow, path)) for column, path in self._paths}
        )

    @staticmethod
    def _type(schema: pa.Schema, path: Sequence[str]) -> pa.DataType:
        kind = schema.field(path[0]).type
        for name in path[1:]:
            kind = kind.field(name).type
        return kind

    def take(self, rows: int) -> pa.Table:
        while self._left.num_rows < rows and (batch := next(self._batches, None)) is not None:
            columns = {
                column: pc.struct_field(batch.column(path[0]), path[1:]) if path[1:] else batch.column(path[0])
                for column, path in self._paths
            }
            self._left = pa.concat_tables([self._left, pa.table(columns, schema=self._left.schema)])
        taken, self._left = self._left.slice(0, rows), self._left.slice(rows)
        return taken

    def end(self) -> None: ...


def _paths(fields: pa.Schema | pa.StructType) -> Iterator[tuple[str, ...]]:
    for field in fields:
        yield (field.name,)
        if pa.types.is_struct(field.type):
            yield from ((field.name, *inner) for inner in _paths(field.type))


def _others(names: Sequence[str], columns: Columns) -> list[str]:
    """Return the names of all columns except the text, the prefix and the target language."""
    text = columns.text or next((name for name in names if name.strip().casefold() in _USUAL), "")
    return [name for name in dict.fromkeys(names) if name not in (text, columns.prefix, columns.to)]


def _chosen(names: Sequence[str], columns: Columns, keep: Sequence[str], place: str) -> Iterator[tuple[str, int]]:
    chosen = _others(names, columns) if tuple(keep) == ALL else keep
    if absent := [name for name in chosen if name not in names]:
        raise _no_column(absent, names, place)
    return ((name, names.index(name)) for name in chosen)


def _no_column(absent: Sequence[str], names: Sequence[str], place: str) -> DataError:
    return DataError(f"{place}: no column {', '.join(map(repr, absent))}: there are {some(names)}; correct --keep")


class KeptColumns:
    """Columns of an output that are carried over, and their values in each format.

    Args:
        taken: names of the other columns. A column that is called like one of them gets the prefix `input_`.
        names: names of the columns to keep. Empty means the names that the rows have.
    """

    def __init__(self, taken: Sequence[str], names: Sequence[str] = ()) -> None:
        self._taken = frozenset(taken)
        self._types: dict[str, pa.DataType | None] = dict.fromkeys(names)
        """Type of each column. None if no value was seen."""

    def look_at(self, rows: pa.Table) -> None:
        """Learn the names and types of some rows. All rows are looked at before the first is written."""
        if is_json(rows.schema):
            for row in _objects(rows):
                for name, value in row.items():
                    self._types[name] = _wider(self._types.get(name), _type_of(value))
        else:
            for field in rows.schema:
                self._types[field.name] = _wider(self._types.get(field.name), field.type)

    @property
    def names(self) -> list[str]:
        """Names in the output, in order."""
        return [f"input_{name}" if name in self._taken else name for name in self._types]

    @property
    def schema(self) -> pa.Schema:
        """Names and types in a Parquet file."""
        kinds = [kind or pa.string() for kind in self._types.values()]
        return pa.schema(list(zip(self.names, kinds, strict=True)))

    def table(self, rows: pa.Table) -> pa.Table:
        """Return the columns of rows, for Parquet."""
        if not is_json(rows.schema):
            columns = [
                rows.column(name) if name in rows.column_names else pa.nulls(rows.num_rows) for name in self._types
            ]
            fitting = [
                pa.chunked_array([pa.array(map(_text, column.to_pylist()), pa.string())])
                if field.type == pa.string() and not pa.types.is_string(column.type)
                else column.cast(field.type)
                for column, field in zip(columns, self.schema, strict=True)
            ]
            return pa.table(fitting, schema=self.schema)
        objects = _objects(rows)
        arrays = []
        for name, field in zip(self._types, self.schema, strict=True):
            values = [row.get(name) for row in objects]
            if field.type == pa.string():
                values = [None if value is None else _text(value) for value in values]
            arrays.append(pa.array(values, field.type))
        return pa.table(arrays, schema=self.schema)

    def texts(self, rows: pa.Table) -> list[list[str | None]]:
        """Return the values of each column as text, for TSV and CSV."""
        objects = _objects(rows)
        return [[_text(row.get(name)) for row in objects] for name in self._types]

    def members(self, rows: pa.Table) -> list[str]:
        """Return the values of each row as the inside of a JSON object, for JSON lines."""
        names = dict(zip(self._types, self.names, strict=True))
        return [json.dumps({names[name]: _plain(value) for name, value in row.items()})[1:-1] for row in _objects(rows)]


def _objects(rows: pa.Table) -> list[dict[str, Any]]:
    if is_json(rows.schema):
        return [json.loads(row) for row in rows.column(JSON_COLUMN).to_pylist()]
    objects: list[dict[str, Any]] = rows.to_pylist()
    return objects


def _type_of(value: Any) -> pa.DataType | None:
    """Return the type of a JSON value. Lists and objects become text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -(1 << 63) <= value < 1 << 63 else pa.string()
    return pa.float64() if isinstance(value, float) else pa.string()


def _wider(one: pa.DataType | None, other: pa.DataType | None) -> pa.DataType | None:
    """Return a type that holds the values of both."""
    if one is None or other is None or one == other:
        return other if one is None else one
    return pa.float64() if {one, other} == {pa.int64(), pa.float64()} else pa.string()


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float) else str(value)
