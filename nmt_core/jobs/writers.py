"""The output in each of its formats: lines, or a table with the columns source, translation, score, model,
model_version and status, and if several translations of a line are wanted, alternatives. The same rows give the same
bytes.
"""

import bz2
import contextlib
import gzip
import lzma
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import BinaryIO, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.corpus import storage
from nmt_core.corpus.formats import Kind
from nmt_core.errors import ConfigError

Write = Callable[[pl.DataFrame], None]

COLUMNS = ("source", "translation", "score", "model", "model_version", "status")
_GROUP_ROWS = 65_536


def see_that_it_holds(n_best: int, kind: Kind, place: str) -> None:
    """See that so many translations of a line can be written.

    Raises:
        ConfigError: there is room for one.
    """
    if n_best > 1 and kind not in (Kind.JSONL, Kind.PARQUET):
        raise ConfigError(
            f"{place}: has room for one translation of each line, but search.n_best={n_best}: write to a .jsonl or "
            ".parquet file, or give --set search.n_best=1"
        )


@contextlib.contextmanager
def writing(url: str, kind: Kind, packing: str, *, header: bool, n_best: int = 1) -> Iterator[Write]:
    """A function that appends rows, tables with `COLUMNS`, to a file that appears when the block ends well.

    Args:
        url: the file.
        kind: its format.
        packing: how it is packed.
        header: whether a TSV or CSV file begins with the names of the columns.
        n_best: translations of each line; with more than one, rows have a column alternatives.

    Raises:
        ConfigError: the format has no room for several.
    """
    see_that_it_holds(n_best, kind, url)
    with storage.published(url) as file, _packed(file, packing) as packed:
        if kind is Kind.PARQUET:
            with _parquet(packed, with_alternatives=n_best > 1) as write:
                yield write
            return
        if header and kind in (Kind.TSV, Kind.CSV):
            packed.write(("\t" if kind is Kind.TSV else ",").join(COLUMNS).encode() + b"\n")
        render = _RENDERERS[kind]
        yield lambda rows: _append(packed, render(rows))


def _append(file: BinaryIO, content: bytes) -> None:
    file.write(content)


def _lines(rows: pl.DataFrame) -> bytes:
    return "".join(f"{line}\n" for line in rows["translation"]).encode()


def _tsv(rows: pl.DataFrame) -> bytes:
    one_line = pl.col("source").str.replace_all(r"[\t\r\n]", " ")  # TSV has no quoting
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


@contextlib.contextmanager
def _parquet(file: BinaryIO, *, with_alternatives: bool) -> Iterator[Write]:
    """Row groups of as many rows as a reader likes, whatever the size of the chunks."""
    fields = [(name, pa.float64() if name == "score" else pa.string()) for name in COLUMNS]
    if with_alternatives:
        fields.append(("alternatives", pa.list_(pa.struct({"translation": pa.string(), "score": pa.float64()}))))
    schema = pa.schema(fields)
    waiting: list[pl.DataFrame] = []
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:

        def write_group() -> None:
            if waiting:
                writer.write_table(pl.concat(waiting).to_arrow().cast(schema))
                waiting.clear()

        def write(rows: pl.DataFrame) -> None:
            waiting.append(rows)
            if sum(table.height for table in waiting) >= _GROUP_ROWS:
                write_group()

        yield write
        write_group()
