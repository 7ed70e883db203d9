"""Write the output of a job in each of its formats.

Lines hold the translation alone, and their alignments go to a second file. Tables have the columns source, translation,
score, model, model_version and status. Depending on the search, they also have columns for an alignment, pieces and
alternatives. The same rows give the same bytes.
"""

import bz2
import contextlib
import gzip
import lzma
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from io import BytesIO
from typing import Any, BinaryIO, Protocol, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError
from nmt_core.formats import Kind
from nmt_core.jobs.chunk import schema_of
from nmt_core.jobs.inputs import ALIGNED
from nmt_core.jobs.kept_columns import KeptColumns
from nmt_core.store import storage


class Write(Protocol):
    """Function that appends rows, with the columns that are carried over if there are any."""

    def __call__(self, rows: pl.DataFrame, kept: pa.Table | None = None, /) -> None: ...


COLUMNS = ("source", "translation", "score", "model", "model_version", "status")
_GROUP_ROWS = 65_536
_GROUP_BYTES = 64 << 20
"""Bytes of text at which a row group of Parquet ends. This bounds the memory, however long the lines are."""
_BREAKS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


def require_output_for(search: SearchConfig, kind: Kind, place: str) -> None:
    """Check that a format can hold everything that a search returns.

    Raises:
        ConfigError: the format cannot hold several translations of a line, or alignments of pieces.
    """
    if search.n_best > 1 and kind not in (Kind.JSONL, Kind.PARQUET):
        raise ConfigError(
            f"{place}: can hold one translation of each line, but search.n_best={search.n_best}: write to a .jsonl or "
            ".parquet file, or give --set search.n_best=1"
        )
    if search.alignments == "pieces" and kind is Kind.LINES:
        raise ConfigError(
            f"{place}: cannot hold alignments of pieces: write to a .tsv, .csv, .jsonl or .parquet file, or set "
            "search.alignments=words"
        )


def holds_scores(kind: Kind) -> bool:
    """Return True if a format holds scores."""
    return kind is not Kind.LINES


def has_second_file(kind: Kind, search: SearchConfig) -> bool:
    """Return True if alignments are written to a second file, because lines hold the translation alone."""
    return kind is Kind.LINES and search.alignments != "none"


def aligned_suffix(packing: str) -> str:
    """Return the suffix of the file with alignments, which is packed like the output."""
    return f"{ALIGNED}.{packing}" if packing else ALIGNED


@contextlib.contextmanager
def writing(
    url: str,
    kind: Kind,
    packing: str,
    search: SearchConfig,
    *,
    header: bool,
    kept: KeptColumns | None = None,
) -> Iterator[Write]:
    """Yield a function that appends rows to a file. The file is published when the block ends without an error.

    Args:
        url: path or address of the file.
        kind: format of the file.
        packing: packing of the file, such as `gz`. Empty means none.
        search: search of the job. It determines the columns of the rows; see `columns_of`.
        header: True if a TSV or CSV file begins with the names of the columns.
        kept: columns that are carried over. None means none.

    Raises:
        ConfigError: the format cannot hold what the search returns.
    """
    require_output_for(search, kind, url)
    columns = [*columns_of(search), *(kept.names if kept else ())]
    with ExitStack() as stack:
        packed = stack.enter_context(packed_file(url, packing))
        if kind is Kind.PARQUET:
            yield stack.enter_context(_parquet(packed, search, kept))
            return
        if header and kind in (Kind.TSV, Kind.CSV):
            packed.write(_RENDERERS[kind](pl.DataFrame({str(n): [name] for n, name in enumerate(columns)})))
        aligned = None
        if has_second_file(kind, search):
            aligned = stack.enter_context(packed_file(url + aligned_suffix(packing), packing))

        def write(rows: pl.DataFrame, others: pa.Table | None = None, /) -> None:
            if kept and others is not None and kind is Kind.JSONL:
                packed.write(_with_members(_jsonl(rows), kept.members(others)))
            elif kept and others is not None:
                packed.write(_RENDERERS[kind](_with_texts(rows, kept, others)))
            else:
                packed.write(_RENDERERS[kind](rows))
            if aligned:
                aligned.write("".join(f"{links}\n" for links in rows["alignment"]).encode())

        yield write


def columns_of(search: SearchConfig) -> list[str]:
    """Return the names of the columns of the output."""
    return [*COLUMNS, *(name for name in schema_of(search) if name not in COLUMNS)]


def _with_members(lines: bytes, members: Sequence[str]) -> bytes:
    """Return lines of JSON objects with further members."""
    rows = zip(lines.split(b"\n"), members, strict=False)  # the last line is empty
    return b"".join(line[:-1] + (b"," + own.encode() if own else b"") + b"}\n" for line, own in rows)


def _with_texts(rows: pl.DataFrame, kept: KeptColumns, others: pa.Table) -> pl.DataFrame:
    columns = zip(kept.names, kept.texts(others), strict=True)
    return rows.with_columns(*(pl.Series(name, values, pl.String) for name, values in columns))


def one_line(text: str) -> str:
    """Return a translation without its line breaks, for formats in which a line is a row."""
    return _BREAKS.sub(" ", text)


def _lines(rows: pl.DataFrame) -> bytes:
    return "".join(f"{one_line(line)}\n" for line in rows["translation"]).encode()


def _tsv(rows: pl.DataFrame) -> bytes:
    one_line = pl.col(pl.String).str.replace_all(r"[\t\r\n]", " ")  # TSV has no quoting
    buffer = BytesIO()
    rows.with_columns(one_line).write_csv(buffer, include_header=False, separator="\t", quote_style="never")
    return buffer.getvalue()


def _csv(rows: pl.DataFrame) -> bytes:
    buffer = BytesIO()
    rows.write_csv(buffer, include_header=False)
    return buffer.getvalue()


def _jsonl(rows: pl.DataFrame) -> bytes:
    buffer = BytesIO()
    rows.write_ndjson(buffer)
    return buffer.getvalue()


_RENDERERS: dict[Kind, Callable[[pl.DataFrame], bytes]] = {
    Kind.LINES: _lines,
    Kind.TSV: _tsv,
    Kind.CSV: _csv,
    Kind.JSONL: _jsonl,
}


@contextlib.contextmanager
def packed_file(url: str, packing: str) -> Iterator[BinaryIO]:
    """Yield a file that packs what is written to it. It is published when the block ends without an error."""
    with storage.published(url) as file, _packed(file, packing) as packed:
        yield packed


@contextlib.contextmanager
def _packed(file: BinaryIO, packing: str) -> Iterator[BinaryIO]:
    """Yield a file that packs what is written to it, without a time or a name."""
    match packing:
        case "gz":
            opened = cast(BinaryIO, gzip.GzipFile("", "wb", 6, file, mtime=0))
        case "bz2":
            opened = cast(BinaryIO, bz2.BZ2File(file, "wb"))
        case "xz":
            opened = cast(BinaryIO, lzma.LZMAFile(file, "wb"))  # noqa: SIM115  # `with` comes below
        case "zst":
            opened = cast(BinaryIO, pa.CompressedOutputStream(_Kept(file), "zstd"))
        case _:
            yield file
            return
    with opened:
        yield opened


class _Kept:
    """File that stays open when its writer closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.closed = False

    def write(self, content: bytes) -> int:
        return self._file.write(content)

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def _arrow(kind: Any) -> pa.DataType:
    """Return the Arrow type of a column of `schema_of`."""
    if isinstance(kind, pl.List):
        return pa.list_(_arrow(kind.inner))
    if isinstance(kind, pl.Struct):
        return pa.struct([(field.name, _arrow(field.dtype)) for field in kind.fields])
    return pa.float64() if kind == pl.Float64 else pa.string()


def _text_bytes(rows: pl.DataFrame) -> int:
    """Return the bytes of text in a table, with alternatives. Its size in memory may differ between runs."""
    own = sum(rows.select(pl.col(pl.String).str.len_bytes().sum()).row(0))
    if "alternatives" not in rows.columns:
        return int(own)
    return int(own) + _text_bytes(rows["alternatives"].explode().struct.unnest())


def _columns_in(tables: Sequence[pa.Table]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    if tables:
        whole = pa.concat_tables(tables)
        yield from zip(whole.column_names, whole.columns, strict=True)


@contextlib.contextmanager
def _parquet(file: BinaryIO, search: SearchConfig, kept: KeptColumns | None) -> Iterator[Write]:
    """Yield a function that writes rows in groups of a size that suits readers, with fewer rows if the text is long.

    The end of a group depends on the rows and the chunks alone, so that the same job writes the same bytes.
    """
    known = schema_of(search)
    schema = pa.schema([(name, _arrow(known.get(name, pl.String))) for name in columns_of(search)])
    waiting: list[pl.DataFrame] = []
    others: list[pa.Table] = []
    count = size = 0
    whole = pa.schema([*schema, *(kept.schema if kept else ())])
    with pq.ParquetWriter(file, whole, compression="zstd") as writer:

        def write_group() -> None:
            nonlocal count, size
            if waiting:
                group = pl.concat(waiting).to_arrow().cast(schema)
                for name, column in _columns_in(others):
                    group = group.append_column(whole.field(name), column)
                writer.write_table(group)
                waiting.clear()
                others.clear()
                count = size = 0

        def write(rows: pl.DataFrame, own: pa.Table | None = None, /) -> None:
            nonlocal count, size
            waiting.append(rows)
            if kept and own is not None:
                others.append(kept.table(own))
                size += own.nbytes
            count, size = count + rows.height, size + _text_bytes(rows)
            if count >= _GROUP_ROWS or size >= _GROUP_BYTES:
                write_group()

        yield write
        write_group()
