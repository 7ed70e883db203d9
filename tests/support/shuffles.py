"""Text with many copies, and the search for them by workers of any kind: work whose files tell how far it is.

    python -m support.shuffles FOLDER_OF_SHARDS SCRATCH

The settings of the environment choose the workers.
"""

import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import polars as pl

from flows.settings import Settings
from flows.workers.clusters import workers_for
from nmt_core.config import CleanConfig
from nmt_core.corpus.duplicates import exact
from nmt_core.execution.pool import Workers

SHARDS, ROWS = 20, 50_000
FIRST_MAP, LATER_MAP, REDUCE = "pair-map-00006.bin", "pair-map-00014.bin", "pair-reduce-00004.bin"
"""Files of the scratch folder, in the order in which they are written."""


def write_shards(folder: Path) -> None:
    """Write shards of a million pairs, many of them repeated."""
    random = np.random.default_rng(1)
    spread = np.uint64(0x9E3779B97F4A7C15)  # odd: different numbers become different keys, all over the range
    for number in range(SHARDS):
        pairs = random.integers(0, 400_000, ROWS, np.uint64)
        places = np.arange(number * ROWS, (number + 1) * ROWS, dtype=np.uint64)
        pl.DataFrame({"place": places, "pair_key": pairs * spread}).write_parquet(folder / f"{number:05d}.parquet")


def find_copies(shards: Path, scratch: Path, workers: Workers) -> None:
    """Find the copies among the shards. The results stay in the scratch folder."""
    files = [str(file) for file in sorted(shards.glob("*.parquet"))]
    drops = exact.deduplicate(files, CleanConfig(), str(scratch), workers)
    assert sum(len(exact.read_drops(url)) for url in drops) > ROWS * SHARDS / 2


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


if __name__ == "__main__":
    with workers_for(Settings.load(os.environ)) as workers:
        find_copies(Path(sys.argv[1]), Path(sys.argv[2]), workers)
