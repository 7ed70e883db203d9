"""The `encode` stage: text to token ids, once, in Parquet shards of `list<uint16>` or `list<uint32>`.

Both sides end in </s>. Pairs that are too long are dropped into `dropped.parquet`, each with its line and length.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.stage import Inputs, Job, StageReport
from nmt_core.tokenizer.tokenizer import EOS_ID, SPM_FILE, Tokenizer

DEV_FILE = "dev.parquet"
_ROW_GROUP_PAIRS = 50_000
_CHUNK_PAIRS = 50_000


class EncodeReport(StageReport):
    """What the token shards hold."""

    dropped: dict[str, int]
    source_tokens: int
    target_tokens: int
    dev_pairs: int
    dev_dropped: int
    """Pairs of the dev set that are too long to validate on; scores are computed on all of them."""
    vocab_size: int
    longest: int
    """Most tokens on one side of a kept pair."""


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> EncodeReport:
    """Encode the training text to `train-NNNNN.parquet` and the dev set to `dev.parquet`.

    Raises:
        StageError: no pair is short enough.
    """
    tokenizer = Tokenizer(inputs["tokenizer"].path / SPM_FILE)
    max_length = config.encode.max_length
    text = pl.scan_parquet(inputs["split"].path / "train.parquet")
    total = text.select(pl.len()).collect().item()
    lengths: list[np.ndarray] = []
    dropped: list[pl.DataFrame] = []
    for shard, first in enumerate(range(0, total, config.encode.shard_pairs)):
        with pq.ParquetWriter(out / f"train-{shard:05d}.parquet", _schema(tokenizer), compression="zstd") as writer:
            end = min(first + config.encode.shard_pairs, total)
            for start in range(first, end, _CHUNK_PAIRS):
                chunk = text.slice(start, min(_CHUNK_PAIRS, end - start)).collect()
                table, sizes = _encode(tokenizer, chunk)
                keep = sizes.max(axis=1) <= max_length
                writer.write_table(table.filter(pa.array(keep)), row_group_size=_ROW_GROUP_PAIRS)
                lengths.append(sizes[keep])
                dropped.append(
                    chunk.filter(~keep).select(
                        "corpus",
                        "line",
                        pl.lit("too many tokens").alias("reason"),
                        pl.Series("value", sizes[~keep].max(axis=1, initial=0)),
                    )
                )
                job.reporter.progress(start + len(chunk), total, "pairs")
    pl.concat(dropped).write_parquet(out / "dropped.parquet")
    kept = np.concatenate(lengths)
    if not len(kept):
        raise StageError(f"encode.max_length={max_length}: all {total:,} pairs are longer: set it higher")
    dev_table, dev_sizes = _encode(tokenizer, pl.read_parquet(inputs["split"].path / DEV_FILE))
    dev_keep = dev_sizes.max(axis=1) <= max_length
    if not dev_keep.any():
        raise StageError(
            f"encode.max_length={max_length}: all {len(dev_keep):,} pairs of dev are longer: set it higher"
        )
    pq.write_table(dev_table.filter(pa.array(dev_keep)), out / DEV_FILE, compression="zstd")
    return EncodeReport(
        items_in=total,
        items_out=len(kept),
        unit="pairs",
        dropped={"too many tokens": total - len(kept)},
        source_tokens=int(kept[:, 0].sum()),
        target_tokens=int(kept[:, 1].sum()),
        dev_pairs=int(dev_keep.sum()),
        dev_dropped=int((~dev_keep).sum()),
        vocab_size=tokenizer.vocab_size,
        longest=int(kept.max()),
    )


def _schema(tokenizer: Tokenizer) -> pa.Schema:
    ids = pa.list_(pa.uint16() if tokenizer.vocab_size <= 1 << 16 else pa.uint32())
    metadata = {"vocab_size": str(tokenizer.vocab_size)}
    return pa.schema([("source", ids), ("target", ids)], metadata=metadata)


def _encode(tokenizer: Tokenizer, chunk: pl.DataFrame) -> tuple[pa.Table, np.ndarray]:
    """Ids of a chunk, and their lengths [pairs, 2] with </s> counted."""
    schema = _schema(tokenizer)
    sides, lengths = [], []
    for side in ("source", "target"):
        rows = tokenizer.encode(chunk[side].to_list())
        for row in rows:
            row.append(EOS_ID)
        sides.append(pa.array(rows, schema.field(side).type))
        lengths.append(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)))
    return pa.Table.from_arrays(sides, schema=schema), np.stack(lengths, axis=1)
