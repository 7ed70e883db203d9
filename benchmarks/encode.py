"""Measure encoding to token shards in pairs per CPU-second, against byte-pair encoding by Hugging Face's tokenizers.

    .venv/bin/pip install tokenizers
    .venv/bin/python benchmarks/encode.py SOURCE TARGET [--pieces N] [--times N]

Both learn the same number of pieces from the same lines. They then read the same Parquet shard of text and write the
same kind of Parquet shard of ids, each alone in a process of one thread. Learning is not counted. The ids of the two
differ, as their vocabularies do. Ours are compared with the ids that SentencePiece gives line by line.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.batches.encode import ShardTask, encode_shard
from nmt_core.config import EncodeConfig, PipelineConfig
from nmt_core.stages.stage import Job, Resources, SilentReporter
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.learn import run
from nmt_core.tokenizer.tokenizer import EOS_ID, SPM_FILE, Tokenizer

SIDES = ("source", "target")
TEXT, OURS, THEIRS, THEIR_MODEL = "train-00000.parquet", "ours.parquet", "theirs.parquet", "tokenizers.json"
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
MAX_LENGTH = 256
CHUNK_PAIRS = 50_000
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}


def main() -> None:
    """Learn, time both, print the ratio."""
    parser = argparse.ArgumentParser(description="Pairs encoded per CPU-second, ours and tokenizers'.")
    parser.add_argument("source", type=Path, help="source text, a sentence a line, plain or .gz")
    parser.add_argument("target", type=Path, help="target text, of as many lines")
    parser.add_argument("--pieces", type=int, default=8_000, help="pieces of the joint vocabulary (8000)")
    parser.add_argument("--times", type=int, default=3, help="how many runs of each, of which the best counts (3)")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        start = time.process_time()
        WORKERS[arguments.worker](arguments.source)
        print(time.process_time() - start)
        return
    with tempfile.TemporaryDirectory(prefix="encode-") as name:
        folder = Path(name)
        text = pl.DataFrame({"source": lines_of(arguments.source), "target": lines_of(arguments.target)})
        text = text.with_columns(corpus=pl.lit("bench"), line=pl.int_range(1, pl.len() + 1))
        text.write_parquet(folder / TEXT, compression="zstd", row_group_size=CHUNK_PAIRS)
        learn_ours(folder, arguments.pieces)
        learn_theirs(folder, arguments.pieces)
        speeds = {}
        for worker in WORKERS:
            seconds = min(measure(worker, folder) for _ in range(arguments.times))
            speeds[worker] = len(text) / seconds
            print(f"{worker:>10}: {seconds:6.2f} CPU-s, {speeds[worker]:10,.0f} pairs per CPU-second", flush=True)
        for worker in ("sentencepiece", "tokenizers"):
            print(f"ours / {worker}: {speeds['ours'] / speeds[worker]:.2f}")
        compare(folder)


def lines_of(file: Path) -> list[str]:
    """Return the lines of a text file. Only a line feed ends a line."""
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return content.decode("utf-8").removesuffix("\n").split("\n")


def learn_ours(folder: Path, pieces: int) -> None:
    """Learn a vocabulary by the stage `tokenizer` from all text."""
    config = PipelineConfig.model_validate(
        {"name": "bench", "corpus": {"toy": {}}, "tokenizer": {"vocab_size": pieces}}
    )
    run(config, {"split": Artifact("split", "0" * 32, folder)}, folder, Job(SilentReporter(), Resources()))


def learn_theirs(folder: Path, pieces: int) -> None:
    """Byte-pair encoding with the same treatment of spaces."""
    import tokenizers

    model = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=pieces, special_tokens=SPECIAL, show_progress=False)
    text = pl.read_parquet(folder / TEXT)
    model.train_from_iterator(chain(text["source"], text["target"]), trainer)
    model.save(str(folder / THEIR_MODEL))


def measure(worker: str, folder: Path) -> float:
    """CPU-seconds of one worker in a process of its own, from the text's shard to the ids' shard."""
    command = [sys.executable, __file__, str(folder), str(folder), "--worker", worker]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def encode_ours(folder: Path) -> None:
    """Encode as a worker of the stage `encode` does."""
    encode_shard(
        ShardTask(
            text=(str(folder / TEXT),),
            first=0,
            rows=pq.read_metadata(folder / TEXT).num_rows,
            tokenizers=str(folder),
            knobs=EncodeConfig(max_length=MAX_LENGTH),
            encoded=str(folder / OURS),
            dropped=str(folder / "dropped.parquet"),
        )
    )


def encode_theirs(folder: Path) -> None:
    """Encode with `encode_batch_fast`, which leaves out the offsets that are not needed here."""
    import tokenizers

    model = tokenizers.Tokenizer.from_file(str(folder / THEIR_MODEL))
    encode_lines(folder, lambda lines: [encoding.ids for encoding in model.encode_batch_fast(lines)])


def encode_plainly(folder: Path) -> None:
    """Encode with SentencePiece, line by line."""
    encode_lines(folder, Tokenizer(folder / SPM_FILE).encode)


def encode_lines(folder: Path, encode: Callable[[list[str]], list[list[int]]]) -> None:
    """Text to ids in Parquet, chunk by chunk, without a detour over Python lists that can be avoided."""
    schema = pa.schema([(side, pa.list_(pa.uint16())) for side in SIDES])
    with pq.ParquetWriter(
        folder / THEIRS, schema, compression="zstd", use_dictionary=False, use_byte_stream_split=True
    ) as writer:
        for batch in pq.ParquetFile(folder / TEXT).iter_batches(CHUNK_PAIRS, columns=list(SIDES)):
            sides = [with_end_marks(encode(batch[side].to_pylist())) for side in SIDES]
            table = pa.table(sides, schema=schema)
            longest = np.maximum(*(side.value_lengths().to_numpy() for side in sides))
            writer.write_table(table.filter(pa.array(longest <= MAX_LENGTH)), row_group_size=CHUNK_PAIRS)


def with_end_marks(rows: list[list[int]]) -> pa.ListArray:
    """Rows of ids as one array, </s> behind each."""
    ends = np.cumsum(np.fromiter(map(len, rows), np.int32, len(rows)), dtype=np.int32)
    ids = np.fromiter(chain.from_iterable(rows), np.uint16, ends[-1])
    offsets = np.concatenate([np.zeros(1, np.int32), ends + np.arange(1, len(rows) + 1, dtype=np.int32)])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.insert(ids, ends, EOS_ID)))


def compare(folder: Path) -> None:
    """Our ids must be SentencePiece's."""
    encode_plainly(folder)
    expected, computed = pq.read_table(folder / THEIRS), pq.read_table(folder / OURS, columns=list(SIDES))
    if not computed.replace_schema_metadata(None).equals(expected):
        sys.exit("our ids are not SentencePiece's: the figures mean nothing")
    print(f"all {len(computed):,} pairs have the ids that SentencePiece gives line by line")


WORKERS = {"ours": encode_ours, "tokenizers": encode_theirs, "sentencepiece": encode_plainly}


if __name__ == "__main__":
    main()
