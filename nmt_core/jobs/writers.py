"""Write the output of a job in each of its formats.

Lines hold the translation alone, and their alignments go to a second file. Tables have the columns source, translation,
score, model, model_version and status. Depending on the search, they also have columns for an alignment, pieces and
alternatives. The same rows give the same bytes.
"""

import bz2
import contextlib
import gzip
import lzma
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BytesIO
from typing import Any, BinaryIO, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError
from nmt_core.formats import Kind
from nmt_core.jobs.chunk import schema_of
from nmt_core.jobs.inputs import ALIGNED
from nmt_core.store import storage

Write = Callable[[pl.DataFrame], None]

COLUMNS = ("source", "translation", "score", "model", "model_version", "status")
_GROUP_ROWS = 65_536
_GROUP_BYTES = 64 << 20
"""Bytes of text at which a row group of Parquet ends. This bounds the memory, however long the lines are."""
_PIECES = ("source_pieces", "translation_pieces")


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
def writing(url: str, kind: Kind, packing: str, search: SearchConfig, *, header: bool) -> Iterator[Write]:
    """Yield a function that appends rows to a file. The file is published when the block ends without an error.

    Args:
        url: path or address of the file.
        kind: format of the file.
        packing: packing of the file, such as `gz`. Empty means none.
        search: search of the job. It determines the columns of the rows; see `columns_of`.
        header: True if a TSV or CSV file begins with the names of the columns.

    Raises:
        ConfigError: the format cannot hold what the search returns.
    """
    require_output_for(search, kind, url)
    columns = columns_of(search)
    with ExitStack() as stack:
        packed = stack.enter_context(_packed_file(url, packing))
        if kind is Kind.PARQUET:
            yield stack.enter_context(_parquet(packed, search))
            return
        if header and kind in (Kind.TSV, Kind.CSV):
            packed.write(("\t" if kind is Kind.TSV else ",").join(columns).encode() + b"\n")
        aligned = None
        if has_second_file(kind, search):
            aligned = stack.enter_context(_packed_file(url + aligned_suffix(packing), packing))

        def write(rows: pl.DataFrame) -> None:
            packed.write(_RENDERERS[kind](rows))
            if aligned:
                aligned.write("".join(f"{links}\n" for links in rows["alignment"]).encode())

        yield write


def columns_of(search: SearchConfig) -> list[str]:
    """Return the names of the columns of the output."""
    return [*COLUMNS, *(name for name in schema_of(search) if name not in COLUMNS)]


def _lines(rows: pl.DataFrame) -> bytes:
    return "".join(f"{line}\n" for line in rows["translation"]).encode()


def _tsv(rows: pl.DataFrame) -> bytes:
    given = [name for name in ("source", *_PIECES) if name in rows.columns]
    one_line = pl.col(given).str.replace_all(r"[\t\r\n]", " ")  # TSV has no quoting
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
def _packed_file(url: str, packing: str) -> Iterator[BinaryIO]:
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


@contextlib.contextmanager
def _parquet(file: BinaryIO, search: SearchConfig) -> Iterator[Write]:
    """Yield a function that writes rows in groups of a size that suits readers, with fewer rows if the text is long.

    The end of a group depends on the rows and the chunks alone, so that the same job writes the same bytes.
    """
    known = schema_of(search)
    schema = pa.schema([(name, _arrow(known.get(name, pl.String))) for name in columns_of(search)])
    waiting: list[pl.DataFrame] = []
    count = size = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:

        def write_group() -> None:
            nonlocal count, size
            if waiting:
                writer.write_table(pl.concat(waiting).to_arrow().cast(schema))
                waiting.clear()
                count = size = 0

        def write(rows: pl.DataFrame) -> None:
            nonlocal count, size
            waiting.append(rows)
            count, size = count + rows.height, size + _text_bytes(rows)
            if count >= _GROUP_ROWS or size >= _GROUP_BYTES:
                write_group()

        yield write
        write_group()
