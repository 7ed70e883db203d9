"""The `encode` stage: text to token ids, once, in the shards that training reads (`shards.py`).

A shard holds the pairs of `encode.shard_pairs` rows of text, wherever the text's own shards begin and end; any worker
encodes it. Pairs that are too long go to `dropped-NNNNN.parquet`, each with its line and length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from nmt_core.batches.lengths import LengthBin, PairCounts, count_sizes, histogram, useful_token_share
from nmt_core.batches.shards import DEV_FILE, ShardWriter
from nmt_core.config import PipelineConfig
from nmt_core.corpus import storage
from nmt_core.corpus.shard import DROPPED_COLUMNS
from nmt_core.errors import StageError
from nmt_core.stage import Inputs, Job, StageReport
from nmt_core.tokenizer.bulk import BulkEncoder
from nmt_core.tokenizer.sample import SIDES, count_pairs, text_shards
from nmt_core.tokenizer.tokenizer import EOS_ID, Tokenizers, tokenizer_files

TOO_LONG = "too_many_tokens"

_CHUNK_PAIRS = 250_000  # the more, the fewer words are encoded twice, and the more memory it takes: about 300 MB


class EncodeReport(StageReport):
    """What the token shards hold."""

    dropped: dict[str, int]
    shards: int
    source_tokens: int
    target_tokens: int
    dev_pairs: int
    dev_dropped: int
    """Pairs of the dev set that are too long to validate on; scores are computed on all of them."""
    source_vocab_size: int
    vocab_size: int
    """Pieces of the target vocabulary, the same as the source's if it is joint."""
    longest: int
    """Most tokens on one side of a kept pair."""
    useful_token_share: dict[str, float]
    """Share of tokens that are no padding when training, by `train.batching` and `train.slice_tokens`."""
    lengths: list[LengthBin]
    """Sentences by length in tokens, end marks included."""


@dataclass(frozen=True)
class ShardTask:
    """Rows of text to be encoded."""

    text: tuple[str, ...]
    """Shards of text that the rows lie in."""
    first: int
    """Rows of these to pass over."""
    rows: int
    tokenizers: str
    """Folder of the tokenizers."""
    max_length: int
    encoded: str
    """To be written: token ids of the pairs that are kept."""
    dropped: str
    """To be written: the other pairs."""


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> EncodeReport:
    """Encode the training text to `train-NNNNN.parquet` and the dev set to `dev.parquet`.

    Raises:
        StageError: no pair is short enough.
    """
    split, folder, max_length = inputs["split"].path, inputs["tokenizer"].path, config.encode.max_length
    tasks = [
        ShardTask(
            text=tuple(map(str, text)),
            first=first,
            rows=rows,
            tokenizers=str(folder),
            max_length=max_length,
            encoded=str(out / f"train-{number:05d}.parquet"),
            dropped=str(out / f"dropped-{number:05d}.parquet"),
        )
        for number, (text, first, rows) in enumerate(cut(text_shards(split), config.encode.shard_pairs))
    ]
    total, done, too_long, kept = sum(task.rows for task in tasks), 0, 0, PairCounts()
    for task, (counts, dropped) in zip(tasks, job.workers.map(encode_shard, tasks), strict=True):
        kept.update(counts)
        too_long += dropped
        done += task.rows
        job.reporter.progress(done, total, "pairs")
    if kept.total() + too_long != total:
        raise StageError(f"encode: of {total:,} pairs {kept.total():,} are kept and {too_long:,} dropped: report this")
    storage.sweep(str(out))
    if not kept:
        raise StageError(f"encode.max_length={max_length}: all {total:,} pairs are longer: set it higher")
    encoder = _encoder(str(folder))
    dev_pairs, dev_dropped = _encode_dev(split / DEV_FILE, encoder, max_length, out / DEV_FILE)
    return EncodeReport(
        items_in=total,
        items_out=kept.total(),
        unit="pairs",
        dropped={TOO_LONG: too_long},
        shards=len(tasks),
        source_tokens=sum(source * count for (source, _), count in kept.items()),
        target_tokens=sum(target * count for (_, target), count in kept.items()),
        dev_pairs=dev_pairs,
        dev_dropped=dev_dropped,
        source_vocab_size=encoder.tokenizers.source.vocab_size,
        vocab_size=encoder.tokenizers.target.vocab_size,
        longest=max(map(max, kept)),
        useful_token_share=useful_token_share(kept),
        lengths=histogram(kept),
    )


def cut(shards: Sequence[Path], pairs: int) -> Iterator[tuple[Sequence[Path], int, int]]:
    """Cut the rows of all shards, in order, into runs of `pairs`: the shards of each run, rows to pass over, rows."""
    ends = np.cumsum([count_pairs(shard) for shard in shards])
    for begin in range(0, int(ends[-1]), pairs):
        end = min(begin + pairs, int(ends[-1]))
        first, last = np.searchsorted(ends, [begin, end - 1], side="right")
        yield shards[first : last + 1], begin - int(ends[first - 1] if first else 0), end - begin


def encode_shard(task: ShardTask) -> tuple[PairCounts, int]:
    """Encode the rows of a task and write both files; how many pairs of each size are kept, and how many are not."""
    encoder = _encoder(task.tokenizers)
    text = pl.scan_parquet(list(task.text), glob=False).select(*SIDES, "corpus", "line")
    kept, dropped, buffer = PairCounts(), [], pa.BufferOutputStream()
    with encoder.writer(buffer) as writer:
        for start in range(0, task.rows, _CHUNK_PAIRS):
            chunk = text.slice(task.first + start, min(_CHUNK_PAIRS, task.rows - start)).collect()
            lengths_N2, is_short = encoder.write(chunk, task.max_length, writer)
            kept.update(count_sizes(lengths_N2[is_short]))
            longest = pl.Series("value", lengths_N2.max(axis=1).astype(str))
            too_long = chunk.with_columns(longest, reason=pl.lit(TOO_LONG)).filter(~is_short)
            dropped.append(too_long.select(DROPPED_COLUMNS))
    storage.write_bytes([memoryview(buffer.getvalue())], task.encoded)
    storage.write(pl.concat(dropped), task.dropped)
    return kept, sum(map(len, dropped))


def _encode_dev(text: Path, encoder: "PairEncoder", max_length: int, out: Path) -> tuple[int, int]:
    """Encode the dev set; pairs that are kept, and pairs that are too long."""
    with encoder.writer(out) as writer:
        pairs = storage.read(str(text)).with_columns(corpus=pl.lit("dev"), line=pl.int_range(1, pl.len() + 1))
        _, is_short = encoder.write(pairs, max_length, writer)
    if not is_short.any():
        raise StageError(
            f"encode.max_length={max_length}: all {len(is_short):,} pairs of dev are longer: set it higher"
        )
    return int(is_short.sum()), int((~is_short).sum())


class PairEncoder:
    """Turns text into shards of ids."""

    def __init__(self, tokenizers: Tokenizers) -> None:
        self.tokenizers = tokenizers
        self._encoders = (BulkEncoder(tokenizers.source), BulkEncoder(tokenizers.target))
        self._metadata = {"vocab_size": str(tokenizers.target.vocab_size)}
        if tokenizers.source_vocab_size:
            self._metadata["source_vocab_size"] = str(tokenizers.source_vocab_size)

    def writer(self, where: Path | pa.BufferOutputStream) -> ShardWriter:
        """A shard to write to."""
        return ShardWriter(where, [encoder.id_type for encoder in self._encoders], self._metadata)

    def write(self, text: pl.DataFrame, max_length: int, writer: ShardWriter) -> tuple[np.ndarray, np.ndarray]:
        """Encode pairs, and write those that have at most `max_length` tokens on both sides.

        Returns:
            Tokens of each pair, [N, 2], and whether it was written, [N].
        """
        sides = [self._encode(text[side], encoder) for side, encoder in zip(SIDES, self._encoders, strict=True)]
        lengths_N2 = np.stack([side.value_lengths().to_numpy() for side in sides], axis=1)
        is_short = lengths_N2.max(axis=1) <= max_length
        kept = pa.array(is_short)
        origin = (text["corpus"].to_arrow(), text["line"].to_arrow())
        writer.write([side.filter(kept) for side in sides], *(column.filter(kept) for column in origin))
        return lengths_N2, is_short

    def _encode(self, text: pl.Series, encoder: BulkEncoder) -> pa.ListArray:
        """Ids of each sentence, ending in </s>."""
        rows = encoder.encode(text.to_arrow())
        offsets = rows.offsets.to_numpy()
        ids = np.insert(rows.values.to_numpy(), offsets[1:], EOS_ID)
        offsets = offsets + np.arange(len(offsets), dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))


def _encoder(tokenizers: str) -> PairEncoder:
    """Of the tokenizers as they are now: a worker that lives on must not take old ones for those made anew."""
    folder = Path(tokenizers)
    found = [(folder / name).stat() for name in tokenizer_files(folder)]
    return _encoder_of(folder, tuple((file.st_mtime_ns, file.st_size) for file in found))


@lru_cache(maxsize=1)
def _encoder_of(folder: Path, stamps: tuple[tuple[int, int], ...]) -> PairEncoder:
    """A worker does many shards with the same tokenizers."""
    return PairEncoder(Tokenizers.load(folder))
