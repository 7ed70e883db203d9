"""Token shards in memory: all ids of one side in one flat array, and where each sentence starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.errors import DataError

TRAIN_FILES = "train-*.parquet"
DEV_FILE = "dev.parquet"


@dataclass(frozen=True)
class Side:
    """Sentences of one language: sentence i is `ids[starts[i] : starts[i] + lengths[i]]`."""

    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class TokenPairs:
    """Sentence pairs as token ids, each side ending in </s>."""

    source: Side
    target: Side
    vocab_size: int
    """Pieces of the target vocabulary."""
    source_vocab_size: int | None = None
    """Pieces of the source's own vocabulary; None if the vocabulary is joint."""

    def __len__(self) -> int:
        return len(self.source.lengths)


def read_shards(files: Sequence[Path]) -> TokenPairs:
    """Read the shards that the `encode` stage wrote, in the order given.

    Raises:
        DataError: a shard is missing or damaged, or there is none.
    """
    if not files:
        raise DataError("no token shards: run the stage `encode` again (`--force encode`)")
    try:
        tables = [pq.read_table(file) for file in files]
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{files[0].parent}: damaged token shard ({error}): run with `--force encode`") from None
    metadata = tables[0].schema.metadata
    source_vocab_size = metadata.get(b"source_vocab_size")
    whole = pa.concat_tables(tables)
    return TokenPairs(
        _side(whole["source"]),
        _side(whole["target"]),
        int(metadata[b"vocab_size"]),
        int(source_vocab_size) if source_vocab_size else None,
    )


def _side(column: pa.ChunkedArray) -> Side:
    rows = column.combine_chunks()
    if isinstance(rows, pa.ChunkedArray):  # pyarrow keeps a column without chunks as it is
        rows = pa.concat_arrays(rows.chunks) if rows.num_chunks else pa.array([], column.type)
    offsets = rows.offsets.to_numpy()
    return Side(rows.values.to_numpy(), offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64))
