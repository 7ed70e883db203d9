"""Read Parquet files, such as the ones on the Hugging Face hub. A column in a struct is named `translation.en`."""

from collections.abc import Callable, Iterator, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nmt_core.errors import DataError
from nmt_core.formats.columns import find_columns
from nmt_core.formats.layout import Layout
from nmt_core.formats.lines import texts_of
from nmt_core.formats.rows import INVALID_UTF8, MISSING_VALUE, checked, paired
from nmt_core.formats.streams import ByteStream

_ROWS_AT_A_TIME = 20_000
_ROWS_OF_ANY_LENGTH = 256
"""Batch size of `read_columns`, whose memory must not grow with the text.

It is small because a file may understate the length of its rows.
"""
_BYTES_AT_A_TIME = 64 << 20
_IN_FLAT_MEMORY = {"buffer_size": 1 << 20, "pre_buffer": False}
"""Options that read a column 1 MiB at a time.

Without them, Arrow reads the whole column of a row group and keeps it until the end of the file.
"""


def read(stream: ByteStream, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield the pairs of a Parquet file.

    See `reader.read` for the tables and errors.
    """
    if stream.path is None:
        raise _packed_twice(stream)
    try:
        with pq.ParquetFile(stream.path, **_IN_FLAT_MEMORY) as file:
            paths = list(_paths(file.schema_arrow))
            names = [".".join(path) for path in paths]
            _require_different(names, stream.name)
            is_text = [_holds_text(file.schema_arrow, path) for path in paths]
            columns = [paths[place] for place in find_columns(names, layout, stream.name, is_text).all]
            for batch in _batches(file, columns, _ROWS_AT_A_TIME):
                pairs = paired(*(_side(batch, column, layout.max_line_bytes) for column in columns[:2]))
                yield pairs.with_columns(document=_names_at(batch, columns[2])) if columns[2:] else pairs
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{stream.name}: the Parquet file is truncated, damaged, or no text ({error}): fetch it again, or correct "
            "the names of its columns"
        ) from None


def read_columns(
    stream: ByteStream,
    find: Callable[[Sequence[str], str], Sequence[int]],
    max_line_bytes: int,
    further: Sequence[str] = (),
) -> Iterator[pl.DataFrame]:
    """Yield tables of one or more columns, in the form of `lines.read_lines` with bytes.

    Args:
        stream: the file.
        find: function that returns the indexes of the columns, the text first and then the `further` ones, given all
            column names and the name of the file.
        max_line_bytes: the longest cell, in bytes.
        further: names that the other columns get in the tables, such as `prefix`.

    Raises:
        DataError: the file is truncated or damaged, or it has no such column.
    """
    opened = stream.path or stream.file
    columns: list[tuple[str, ...]] = []
    if opened is None:
        raise _packed_twice(stream)
    try:
        with pq.ParquetFile(opened, **_IN_FLAT_MEMORY) as file:
            paths = list(_paths(file.schema_arrow))
            columns = [paths[place] for place in find([".".join(path) for path in paths], stream.name)]
            column, *others = columns
            for batch in _batches(file, columns, _ROWS_OF_ANY_LENGTH):
                side = _side_with_bytes(batch, column, max_line_bytes)
                for name, other in zip(further, others, strict=True):
                    side = _with_column(side, name, _side_with_bytes(batch, other, max_line_bytes))
                yield side
    except (pa.ArrowException, OSError) as error:
        if not columns:
            raise DataError(
                f"{stream.name}: the Parquet file is truncated, damaged, or no Parquet ({error}): write it again"
            ) from None
        asked = " or ".join(".".join(path) for path in columns)
        raise DataError(
            f"{stream.name}, column {asked}: the Parquet file is truncated, damaged, or the column holds "
            f"no text ({error}): write the file again, or name another column"
        ) from None


def _require_different(names: Sequence[str], place: str) -> None:
    """Check that no two columns have one name: Arrow cannot read either of them."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{place}: {names.count(twice)} columns are called {twice!r}: rename them")


def _batches(file: pq.ParquetFile, columns: Sequence[tuple[str, ...]], most: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most `most` rows, and fewer where rows are long: `_BYTES_AT_A_TIME` on average.

    The row length comes from the metadata of each row group. It is too low for repeated text, which is stored once.
    """
    names = [".".join(column) for column in columns]
    places = [place for place in range(len(file.schema)) if file.schema.column(place).path in names]
    longest = 1.0
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        size = sum(group.column(place).total_uncompressed_size for place in places)
        longest = max(longest, size / max(group.num_rows, 1))
    yield from file.iter_batches(min(most, max(1, int(_BYTES_AT_A_TIME / longest))), columns=names)


def _with_column(side: pl.DataFrame, name: str, other: pl.DataFrame) -> pl.DataFrame:
    """Return the side with a further column. Null means that it is empty.

    A cell that cannot be read gives its fault and bytes to the row.
    """
    fault = other["fault"].replace(MISSING_VALUE, None)
    raw = pl.when(pl.col("fault").is_null()).then(other["raw"]).otherwise("raw")
    return side.with_columns(other["text"].alias(name), fault=pl.coalesce("fault", fault), raw=raw)


def _paths(fields: pa.Schema | pa.StructType) -> Iterator[tuple[str, ...]]:
    """Yield the path to each column: (`translation`, `en`), or (`text.en`,) for a name that contains a dot."""
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from ((field.name, *inner) for inner in _paths(field.type))
        else:
            yield (field.name,)


def _holds_text(schema: pa.Schema, path: tuple[str, ...]) -> bool:
    """Return True if a column may hold text: its type is not a number, a date, a list..."""
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        check(kind)
        for check in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_null,
        )
    )


def _packed_twice(stream: ByteStream) -> DataError:
    return DataError(f"{stream.name}: a Parquet file that is packed once more cannot be read: unpack it")


def _side(batch: pa.RecordBatch, column: tuple[str, ...], max_line_bytes: int) -> pl.DataFrame:
    side = texts_of(_bytes_of(batch, column), max_line_bytes)
    missing = pl.col("text").is_null()
    side = side.select(
        pl.col("text").fill_null(""),
        pl.when(missing).then(pl.lit(MISSING_VALUE)).otherwise(pl.col("fault")).alias("fault"),
        pl.when(missing).then(pl.lit(".".join(column))).otherwise(pl.col("value")).alias("value"),
    )
    return checked(side, max_line_bytes)


def _side_with_bytes(batch: pa.RecordBatch, column: tuple[str, ...], max_line_bytes: int) -> pl.DataFrame:
    """Return a side with the bytes of its texts that are not UTF-8."""
    side = _side(batch, column, max_line_bytes)
    return side.with_columns(raw=pl.when(pl.col("fault") == INVALID_UTF8).then(_bytes_of(batch, column)))


def _names_at(batch: pa.RecordBatch, column: tuple[str, ...]) -> pl.Series:
    """Return the values of a column of any simple type as text."""
    values = batch.column(column[0])
    if column[1:]:
        values = pc.struct_field(values, list(column[1:]))
    return pl.Series(pl.from_arrow(values)).cast(pl.String)


def _bytes_of(batch: pa.RecordBatch, column: tuple[str, ...]) -> pl.Series:
    """Return the texts as bytes. Arrow does not check that text columns are valid UTF-8."""
    name, *inner = column
    values = batch.column(name)
    if inner:
        values = pc.struct_field(values, inner)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return pl.Series(pl.from_arrow(values.cast(pa.large_binary())))
