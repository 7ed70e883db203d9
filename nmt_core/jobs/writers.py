"""The output in each of its formats: lines, or a table with the columns source, translation, score, model,
model_version and status, and what the search was asked for beside: an alignment, pieces, alternatives. Lines have their
alignments in a second file. The same rows give the same bytes.
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
"""Of text in a row group of Parquet: about as much is held in memory, however long the lines are."""
_PIECES = ("source_pieces", "translation_pieces")


def require_output_for(search: SearchConfig, kind: Kind, place: str) -> None:
    """See that all that a search finds can be written.

    Raises:
        ConfigError: there is no room for several translations, or for pieces.
    """
    if search.n_best > 1 and kind not in (Kind.JSONL, Kind.PARQUET):
        raise ConfigError(
            f"{place}: has room for one translation of each line, but search.n_best={search.n_best}: write to a .jsonl "
            "or .parquet file, or give --set search.n_best=1"
        )
    if search.alignments == "pieces" and kind is Kind.LINES:
        raise ConfigError(
            f"{place}: has no room for pieces: write to a .tsv, .csv, .jsonl or .parquet file, or set "
            "search.alignments=words"
        )


def holds_scores(kind: Kind) -> bool:
    """Whether the format has room for them."""
    return kind is not Kind.LINES


def has_second_file(kind: Kind, search: SearchConfig) -> bool:
    """Whether alignments are written to a file of their own: lines hold the translation alone."""
    return kind is Kind.LINES and search.alignments != "none"


def aligned_suffix(packing: str) -> str:
    """Suffix of that file, which is packed as the output is."""
    return f"{ALIGNED}.{packing}" if packing else ALIGNED


@contextlib.contextmanager
def writing(url: str, kind: Kind, packing: str, search: SearchConfig, *, header: bool) -> Iterator[Write]:
    """A function that appends rows, tables with `COLUMNS`, to a file that appears when the block ends well.

    Args:
        url: the file.
        kind: its format.
        packing: how it is packed.
        search: which columns rows have beside: those of `chunk.schema_of`.
        header: whether a TSV or CSV file begins with the names of the columns.

    Raises:
        ConfigError: the format has no room for what the search finds.
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
    """Columns of the output."""
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
    """The file, packed as it is written; neither time nor name goes into it."""
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
    """A file that stays open when who writes to it is done."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.closed = False

    def write(self, content: bytes) -> int:
        return self._file.write(content)

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def _arrow(kind: Any) -> pa.DataType:
    """The type in Arrow of a column of `schema_of`."""
    if isinstance(kind, pl.List):
        return pa.list_(_arrow(kind.inner))
    if isinstance(kind, pl.Struct):
        return pa.struct([(field.name, _arrow(field.dtype)) for field in kind.fields])
    return pa.float64() if kind == pl.Float64 else pa.string()


def _text_bytes(rows: pl.DataFrame) -> int:
    """Bytes of text in a table, alternatives included; those of its memory may differ from one run to the next."""
    own = sum(rows.select(pl.col(pl.String).str.len_bytes().sum()).row(0))
    if "alternatives" not in rows.columns:
        return int(own)
    return int(own) + _text_bytes(rows["alternatives"].explode().struct.unnest())


@contextlib.contextmanager
def _parquet(file: BinaryIO, search: SearchConfig) -> Iterator[Write]:
    """Row groups of as many rows as a reader likes, fewer of long text, whatever the size of the chunks.

    Where a group ends depends on the rows and the chunks alone, so that the same job writes the same bytes.
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
