"""Read the beginning of a corpus, and estimate how many pairs the whole of it holds."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core import formats
from nmt_core.advice.corpora import LocalCorpus, Pair
from nmt_core.errors import DataError
from nmt_core.formats import Kind, tars
from nmt_core.formats.charsets import decoded
from nmt_core.formats.kinds import kind_of
from nmt_core.formats.streams import ByteStream, unpacked

UNKNOWN: Pair = ("qaa", "qab")
"""Codes for local use, which fit no file. With them a table is read by its roles, or by the order of its columns."""

_MAX_LINE_BYTES = 100_000
_COUNTED_BYTES = 32 << 20
_BLOCK_BYTES = 1 << 20
_UNIT = {
    Kind.LINES: b"\n",
    Kind.TSV: b"\n",
    Kind.CSV: b"\n",
    Kind.JSONL: b"\n",
    Kind.TMX: b"</tu>",
    Kind.XLIFF: b"</target>",
    Kind.PO: b"\nmsgid ",
}
"""Bytes of which each pair has one."""
_SCATTER = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplication spreads adjacent lines far apart


@dataclass(frozen=True)
class Drawn:
    """Pairs from the beginning of a corpus."""

    corpus: LocalCorpus
    rows: pl.DataFrame
    """Columns source, target, line, fault and value, as `formats.read` returns them."""
    read: int
    """Number of pairs from which `rows` were drawn."""
    pairs: int
    """Number of pairs of the corpus. It is an estimate unless `is_whole`."""
    is_whole: bool


def draw(
    corpus: LocalCorpus, languages: Pair, most_read: int, most_kept: int, seed: int, note: Callable[[str], None]
) -> Drawn:
    """Read at most about `most_read` pairs, and keep a random part of them, at most `most_kept`.

    The same text and seed give the same pairs.

    Raises:
        DataError: the corpus cannot be read.
    """
    source, target = languages
    layout = formats.Layout(
        source_language=source,
        target_language=target,
        source_column=corpus.columns[0],
        target_column=corpus.columns[1],
        max_line_bytes=_MAX_LINE_BYTES,
        encoding=corpus.encoding,
        note=note,
    )
    kept, read, is_whole = pl.DataFrame(), 0, True
    for rows in formats.read(corpus.files, layout):
        if read >= most_read:
            is_whole = False
            break
        ranks = (rows["line"].cast(pl.UInt64).to_numpy() + np.uint64(seed)) * _SCATTER
        ranked = rows.with_columns(pl.Series("rank", ranks))
        kept = (pl.concat([kept, ranked]) if kept.height else ranked).bottom_k(most_kept, by="rank")
        read += rows.height
    if not read:
        raise DataError(f"{corpus.shown}: holds no pair: name a file that does")
    rows = kept.sort("line").drop("rank").with_columns(pl.col("source", "target").fill_null(""))
    if not is_whole and (whole := _count(corpus, rows)) > read:
        return Drawn(corpus, rows, read, whole, False)
    return Drawn(corpus, rows, read, read, is_whole)


def _count(corpus: LocalCorpus, rows: pl.DataFrame) -> int:
    """Return about how many pairs a corpus holds, by its size and the size of a pair."""
    path = (corpus.both or corpus.source or Path()).resolve()
    side: formats.FileSide = "both" if corpus.both else "source"
    with path.open("rb") as file:
        stream = unpacked(ByteStream(str(path), file))
        kind = kind_of(decoded(stream, corpus.encoding), path.name, side)
        if kind is Kind.PARQUET:
            return _rows_of(path)
        if kind in (Kind.ZIP, Kind.TAR):
            return _of_archive(path, kind, rows, side)
        if kind not in _UNIT:
            return 0
        units, taken = 0, 0
        while taken < _COUNTED_BYTES and (block := stream.read(_BLOCK_BYTES)):
            units += block.count(_UNIT[kind])
            taken += len(block)
        return int(units * path.stat().st_size / max(1, file.tell()))


def _rows_of(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):  # the reader gives the reason
        return 0


def _of_archive(path: Path, kind: Kind, rows: pl.DataFrame, side: str) -> int:
    """Return about how many pairs the members of an archive hold, by the bytes of the sampled text."""
    if kind is Kind.ZIP:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
    else:
        size = sum(entry.size for entry in tars.entries(path))
    columns = ("source", "target") if side == "both" else ("source",)
    text = sum(int(rows[column].str.len_bytes().sum()) + rows.height for column in columns)
    return int(size * rows.height / max(1, text))
