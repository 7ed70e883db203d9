"""Make synthetic token shards for benchmarks of what follows `encode`: lengths as in real text, ids without a meaning.

Source lengths are log-normal with a median of 20 tokens and a mean of 24, end mark included. A target sentence is about
as long as its source, give or take a quarter. None is longer than 256. That is similar to sentences of news in 32,000
pieces. Ids follow Zipf's law: of n pieces, the k-th is drawn about 1/k as often as the first. A shard is the same each
time.
"""

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa

from nmt_core.batches.shards import DEV_FILE, ShardWriter
from nmt_core.tokenizer.tokenizer import EOS_ID

LONGEST = 256
SHARD_PAIRS = 200_000
_DEV_PAIRS = 200
_MEDIAN, _SPREAD, _SPREAD_OF_RATIO = 20, 0.6, 0.25


def write(folder: Path, pairs: int, vocab_size: int, processes: int = 1) -> None:
    """Write `train-NNNNN.parquet` of `SHARD_PAIRS` pairs each, the last of fewer, and `dev.parquet`."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [min(SHARD_PAIRS, pairs - first) for first in range(0, pairs, SHARD_PAIRS)]
    files = [folder / f"train-{number:05d}.parquet" for number in range(len(sizes))]
    work = partial(_write_shard, vocab_size=vocab_size)
    jobs = list(zip([*files, folder / DEV_FILE], [*sizes, _DEV_PAIRS], range(len(files) + 1), strict=True))
    if processes == 1:
        for job in jobs:
            work(job)
    else:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            list(pool.map(work, jobs))


def _write_shard(job: tuple[Path, int, int], vocab_size: int) -> None:
    file, pairs, seed = job
    draw = np.random.default_rng(seed)
    id_type = np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)
    first = EOS_ID + 1
    # An id for each of 65,536 equally likely numbers: quicker than a power for each token.
    ranks = (vocab_size - first) ** (np.arange(1 << 16) / (1 << 16))
    table = (first - 1 + ranks).astype(id_type)
    source_N = draw.lognormal(np.log(_MEDIAN), _SPREAD, pairs)
    target_N = source_N * draw.lognormal(0, _SPREAD_OF_RATIO, pairs)
    sides = []
    for length_N in (source_N, target_N):
        ends = np.cumsum(np.clip(length_N.round().astype(np.int32), 2, LONGEST))
        ids = table[draw.integers(0, 1 << 16, ends[-1], dtype=np.uint16)]
        ids[ends - 1] = EOS_ID
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        sides.append(pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids)))
    with ShardWriter(file, [pa.from_numpy_dtype(id_type)] * 2, {"vocab_size": str(vocab_size)}) as writer:
        writer.write(sides, pa.repeat("synthetic", pairs), pa.array(np.arange(1, pairs + 1)))
