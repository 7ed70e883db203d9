"""Encode text to token ids once, into the shards that training reads (`shards.py`): the stage `encode`.

A shard holds the pairs of `encode.shard_pairs` rows of text, whatever the shards of the text are. Any worker can encode
it. Pairs that are too long are written to `dropped-NNNNN.parquet`, each with its line and length.

With `encode.subword_sampling` the training text is segmented at random `encode.samples` times. The footer of a shard
holds the number of its segmentation, and each epoch reads one segmentation (`plan.py`). The dev set is segmented as
text is in translation.

In text of many pairs of languages, the id of the token that names the target language begins the source or the target.
It counts in lengths, and is linked with nothing.

With `encode.alignments`, an aligner is learned first, and each target token of the training text is linked with a
source token (`word_alignment.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from nmt_core.batches.lengths import LengthBin, PairCounts, count_sizes, histogram, useful_token_share
from nmt_core.batches.pair_encoder import PairEncoder, encoder_of
from nmt_core.batches.shards import DEV_FILE
from nmt_core.batches.word_alignment import learn_aligner
from nmt_core.config import SIDES, TOKEN_COLUMNS, EncodeConfig, PipelineConfig
from nmt_core.corpus.shard import DROPPED_COLUMNS
from nmt_core.errors import ConfigError, StageError
from nmt_core.stages.stage import Inputs, Job, StageReport, require_sum
from nmt_core.store import storage
from nmt_core.tokenizer.bulk import Sampling
from nmt_core.tokenizer.sample import count_pairs, text_shards

TOO_LONG = "too_many_tokens"
ALIGNER_FILE = "aligner.safetensors"
"""Name of the file of the aligner in the artifact, with `encode.alignments`."""

_CHUNK_PAIRS = 250_000  # with more pairs, fewer words are encoded twice, but it takes more memory: about 300 MB


class EncodeReport(StageReport):
    """Report of the `encode` stage: contents of the token shards."""

    dropped: dict[str, int]
    shards: int
    source_tokens: int
    target_tokens: int
    source_tokens_per_sentence: float
    """Mean number of tokens of a source sentence, without the end mark."""
    target_tokens_per_sentence: float
    """Mean number of tokens of a target sentence, without the end mark."""
    source_unknown: float
    """Share of <unk> among the source tokens of the kept pairs, without end marks."""
    target_unknown: float
    """Share of <unk> among the target tokens of the kept pairs, without end marks."""
    target_linked: float | None = None
    """Share of the target tokens, without end marks, that are linked with a source token. None means that pairs are not
    aligned."""
    dev_pairs: int
    dev_dropped: int
    """Number of dev pairs that are too long for validation. Scores are computed on all dev pairs."""
    source_vocab_size: int
    vocab_size: int
    """Number of pieces of the target vocabulary. It equals `source_vocab_size` if the vocabulary is joint."""
    longest: int
    """Most tokens on one side of a kept pair."""
    useful_token_share: dict[str, float]
    """Share of tokens in training that are not padding, by `train.batching` and `train.micro_batch_tokens`."""
    lengths: list[LengthBin]
    """Number of sentences by length in tokens, end marks included."""


@dataclass(frozen=True)
class ShardTask:
    """Rows of text to encode into one shard."""

    text: tuple[str, ...]
    """Shards of text that contain the rows."""
    first: int
    """Number of rows of these shards to skip."""
    rows: int
    tokenizers: str
    """Folder of the tokenizers."""
    encoded: str
    """Output file for the token ids of the pairs that are kept."""
    dropped: str
    """Output file for the pairs that are dropped."""
    knobs: EncodeConfig
    sample: int = 0
    """Number of the segmentation, from 0."""
    aligner: str | None = None
    """File of the aligner. None means that pairs are not aligned."""

    def sampling(self, first: int) -> Sampling | None:
        """Return the sampling of the pairs from row `first` on. None means that segmentations are not sampled."""
        if not self.knobs.subword_sampling:
            return None
        seed = (self.knobs.seed, self.sample, self.first + first, *map(ord, Path(self.text[0]).name))
        return Sampling(self.knobs.subword_sampling, seed)


@dataclass
class Encoded:
    """Counts of encoded pairs."""

    kept: PairCounts = field(default_factory=PairCounts)
    too_long: int = 0
    unknown_2: np.ndarray = field(default_factory=lambda: np.zeros(2, np.int64))
    """Number of <unk> among the source and target tokens of the kept pairs, [2]."""
    linked: int = 0
    """Number of target tokens of the kept pairs that are linked with a source token."""

    def add(self, other: "Encoded") -> None:
        """Add the counts of other pairs."""
        self.kept.update(other.kept)
        self.too_long += other.too_long
        self.unknown_2 = self.unknown_2 + other.unknown_2
        self.linked += other.linked


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> EncodeReport:
    """Encode the training text to `train-NNNNN.parquet` and the dev set to `dev.parquet`.

    Raises:
        ConfigError: `encode.subword_sampling` is set, but the vocabulary allows only one segmentation.
        StageError: no pair is short enough, or the counts of pairs do not add up.
    """
    split, folder, knobs = inputs["split"].path, inputs["tokenizer"].path, config.encode
    encoder = encoder_of(str(folder))
    if knobs.subword_sampling and not encoder.can_sample:
        raise ConfigError(
            f"encode.subword_sampling={knobs.subword_sampling}: the vocabulary allows only one segmentation (its "
            "pieces are characters or words, or span spaces): set it to 0"
        )
    aligner = _learn_aligner(split, encoder, out, job) if knobs.alignments else None
    tasks = list(_tasks(knobs, text_shards(split), folder, out, aligner))
    total, done, found = sum(task.rows for task in tasks), 0, Encoded()
    for task, encoded in zip(tasks, job.workers.map(encode_shard, tasks), strict=True):
        found.add(encoded)
        done += task.rows
        job.reporter.progress(done, total, "pairs")
    kept = found.kept
    require_sum("encode", total, {"kept": kept.total(), "dropped": found.too_long})
    storage.sweep(str(out))
    if not kept:
        raise StageError(f"encode.max_length={knobs.max_length}: all {total:,} pairs are longer: set it higher")
    dev_pairs, dev_dropped = _encode_dev(split / DEV_FILE, encoder, knobs.max_length, out / DEV_FILE)
    tokens_2: np.ndarray = sum((np.array(size) * count for size, count in kept.items()), np.zeros(2, np.int64))
    return EncodeReport(
        items_in=total,
        items_out=kept.total(),
        unit="pairs",
        dropped={TOO_LONG: found.too_long},
        shards=len(tasks),
        dev_pairs=dev_pairs,
        dev_dropped=dev_dropped,
        source_vocab_size=encoder.tokenizers.source.vocab_size,
        vocab_size=encoder.tokenizers.target.vocab_size,
        longest=max(map(max, kept)),
        useful_token_share=useful_token_share(kept),
        lengths=histogram(kept),
        target_linked=round(found.linked / max(1, int(tokens_2[1]) - kept.total()), 4) if knobs.alignments else None,
        **_rates(tokens_2, kept.total(), found.unknown_2),
    )


def _learn_aligner(split: Path, encoder: PairEncoder, out: Path, job: Job) -> str:
    """Learn the aligner of the training text, and return its file in the artifact."""
    job.reporter.log("learning which pieces translate each other")
    learn_aligner(split, encoder.tokenizers).save(out / ALIGNER_FILE)
    return str(out / ALIGNER_FILE)


def _rates(tokens_2: np.ndarray, pairs: int, unknown_2: np.ndarray) -> dict[str, Any]:
    """Return the fields of the report for the tokens of each side."""
    found: dict[str, Any] = {}
    for side, tokens, unknown in zip(SIDES, tokens_2.tolist(), unknown_2.tolist(), strict=True):
        found[f"{side}_tokens"] = tokens
        found[f"{side}_tokens_per_sentence"] = round(tokens / pairs - 1, 3)  # without the end mark
        found[f"{side}_unknown"] = round(unknown / max(1, tokens - pairs), 6)
    return found


def _tasks(
    knobs: EncodeConfig, shards: Sequence[Path], tokenizers: Path, out: Path, aligner: str | None
) -> Iterator[ShardTask]:
    """Yield the tasks of all shards of the first segmentation, then of the second, and so on."""
    runs = [
        run for sample in range(knobs.samples) for run in ((sample, *part) for part in cut(shards, knobs.shard_pairs))
    ]
    for number, (sample, text, first, rows) in enumerate(runs):
        yield ShardTask(
            text=tuple(map(str, text)),
            first=first,
            rows=rows,
            tokenizers=str(tokenizers),
            encoded=str(out / f"train-{number:05d}.parquet"),
            dropped=str(out / f"dropped-{number:05d}.parquet"),
            knobs=knobs,
            sample=sample,
            aligner=aligner,
        )


def cut(shards: Sequence[Path], pairs: int) -> Iterator[tuple[Sequence[Path], int, int]]:
    """Cut the rows of all shards, in order, into runs of `pairs` rows.

    Yield for each run the shards that contain it, the number of their rows to skip, and the number of rows.
    """
    ends = np.cumsum([count_pairs(shard) for shard in shards])
    for begin in range(0, int(ends[-1]), pairs):
        end = min(begin + pairs, int(ends[-1]))
        first, last = np.searchsorted(ends, [begin, end - 1], side="right")
        yield shards[first : last + 1], begin - int(ends[first - 1] if first else 0), end - begin


def encode_shard(task: ShardTask) -> Encoded:
    """Encode the rows of a task, and write both files."""
    encoder = encoder_of(task.tokenizers, task.aligner)
    shards = [pl.scan_parquet(shard, glob=False) for shard in task.text]  # other columns may differ between shards
    tokens = [name for name in TOKEN_COLUMNS.values() if name in shards[0].collect_schema()]
    text = pl.concat([shard.select(*SIDES, "corpus", "line", *tokens) for shard in shards])
    found, dropped, buffer = Encoded(), [], pa.BufferOutputStream()
    with encoder.writer(buffer, task.sample) as writer:
        for start in range(0, task.rows, _CHUNK_PAIRS):
            chunk = text.slice(task.first + start, min(_CHUNK_PAIRS, task.rows - start)).collect()
            written = encoder.write(chunk, task.knobs.max_length, writer, task.sampling(start))
            too_long = ~written.is_short_N
            sizes = count_sizes(written.lengths_N2[~too_long])
            found.add(Encoded(sizes, int(too_long.sum()), written.unknown_2, written.linked))
            longest = pl.Series("value", written.lengths_N2.max(axis=1).astype(str))
            listed = chunk.with_columns(longest, reason=pl.lit(TOO_LONG)).filter(too_long)
            dropped.append(listed.select(DROPPED_COLUMNS))
    storage.write_bytes([memoryview(buffer.getvalue())], task.encoded)
    storage.write(pl.concat(dropped), task.dropped)
    return found


def _encode_dev(text: Path, encoder: PairEncoder, max_length: int, out: Path) -> tuple[int, int]:
    """Encode the dev set. Return the number of pairs that are kept, and of those that are too long."""
    with encoder.writer(out) as writer:
        pairs = storage.read(str(text)).with_columns(corpus=pl.lit("dev"), line=pl.int_range(1, pl.len() + 1))
        is_short = encoder.write(pairs, max_length, writer).is_short_N
    if not is_short.any():
        raise StageError(f"encode.max_length={max_length}: all {len(is_short):,} dev pairs are longer: set it higher")
    return int(is_short.sum()), int((~is_short).sum())
