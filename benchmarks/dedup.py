"""Measure exact deduplication from text shards to text shards, in one run with polars' `unique` and DuckDB.

    .venv/bin/python benchmarks/dedup.py [--pairs N] [--folder FOLDER] [--contenders NAME ...]

The text is generated, and is the same each time: Parquet shards of 250,000 pairs of about 100 bytes, of which 23% are
copies of an earlier pair. Each contender is a process with one thread. Its CPU seconds count from the start of the
interpreter to its end, and its peak memory is the largest resident set. All must keep the same number of pairs.
DuckDB is not a dependency of this package: `pip install duckdb`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SHARD_PAIRS = 250_000
COPIES = 0.23
LEVEL = 1
"""zstd level of all outputs."""
DUCKDB_MEMORY = "2GB"
THREADS = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
WORDS_A_SIDE = 7
VOCABULARY = 30_000


def main() -> None:
    """Make the text, run each contender, and print the table. Fail if one keeps another number of pairs."""
    parser = argparse.ArgumentParser(description="Exact deduplication: pairs per CPU-second and peak memory.")
    parser.add_argument("--pairs", type=int, default=10_000_000, help="how many (10,000,000)")
    parser.add_argument("--folder", type=Path, help="where text and results go; kept for the next run (temporary)")
    parser.add_argument("--contenders", nargs="*", choices=CONTENDERS, default=list(CONTENDERS), help="all")
    parser.add_argument("--child", choices=["text", *CONTENDERS], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        text = arguments.folder / f"text-{arguments.pairs}"
        child = generate if arguments.child == "text" else CONTENDERS[arguments.child]
        child(text, arguments.folder / arguments.child, arguments.pairs)
        return
    if arguments.folder:
        compare(arguments.folder, arguments.pairs, arguments.contenders)
    else:
        with tempfile.TemporaryDirectory() as folder:
            compare(Path(folder), arguments.pairs, arguments.contenders)


def compare(folder: Path, pairs: int, contenders: list[str]) -> None:
    """Print a row for each contender."""
    text = folder / f"text-{pairs}"
    if not (text / "unique").exists():
        measure("text", folder, pairs)
    unique = int((text / "unique").read_text())
    print(f"{pairs:,} pairs, {unique:,} of them unique, {size_of(text) / 1e6:,.0f} MB of Parquet\n")
    print("| | pairs per CPU-second | CPU seconds | seconds | peak memory, MB |\n| --- | --- | --- | --- | --- |")
    for name in contenders:
        cpu, wall, memory = measure(name, folder, pairs)
        kept = count(folder / name)
        if kept != unique:
            sys.exit(f"{name} keeps {kept:,} pairs, not {unique:,}: the contenders did not do the same")
        print(f"| {name} | {pairs / cpu:,.0f} | {cpu:.1f} | {wall:.1f} | {memory / 1e6:,.0f} |", flush=True)
        shutil.rmtree(folder / name)


def measure(child: str, folder: Path, pairs: int) -> tuple[float, float, float]:
    """Return CPU seconds, seconds and bytes of peak memory of a child process."""
    if child != "text":
        shutil.rmtree(folder / child, ignore_errors=True)
        (folder / child).mkdir(parents=True)
    command = [sys.executable, __file__, "--child", child, "--folder", str(folder), "--pairs", str(pairs)]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=os.environ | THREADS)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{child} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss * 1024


def generate(text: Path, _: Path, pairs: int) -> None:
    """Write the shards, and the number of pairs without copies into the file `unique`."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(1)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
    vocabulary = pl.Series(
        [bytes(rng.choice(letters, 2 + number % 10)).decode() + chr(97 + number % 26) for number in range(VOCABULARY)]
    )
    text.mkdir(parents=True, exist_ok=True)
    unique = 0
    for number in range(0, pairs, SHARD_PAIRS):
        rows = min(SHARD_PAIRS, pairs - number)
        new = rng.random(rows) >= COPIES
        new[:1] |= not number
        earlier = unique + np.cumsum(new)
        identity = np.where(new, earlier - 1, (rng.random(rows) * earlier).astype(np.int64)).astype(np.uint64)
        unique = int(earlier[-1])
        columns = {}
        for side, salt in (("source", 1), ("target", 2)):
            words = []
            for position in range(WORDS_A_SIDE):
                mixed = (identity + np.uint64(salt << 50 | position << 44)) * np.uint64(0x9E3779B97F4A7C15)
                mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
                uniform = (mixed ^ (mixed >> np.uint64(32))).astype(np.float64) / 2**64
                words.append(vocabulary.gather((VOCABULARY**uniform).astype(np.int64).clip(0, VOCABULARY - 1)))
            if side == "source":
                words.append(pl.Series(identity).cast(pl.String))  # no two pairs are equal by chance
            frame = pl.DataFrame({f"word{position}": word for position, word in enumerate(words)})
            columns[side] = frame.select(pl.concat_str(pl.all(), separator=" ")).to_series()
        pl.DataFrame(columns).write_parquet(text / f"{number // SHARD_PAIRS:05d}.parquet", compression="zstd")
    (text / "unique").write_text(str(unique))


def ours(text: Path, out: Path, pairs: int) -> None:
    """This package with one worker: keys of each shard, the shuffle through files, and each shard without its drops."""
    import numpy as np
    import polars as pl

    from nmt_core.config import CleanConfig
    from nmt_core.corpus import normalize
    from nmt_core.corpus.duplicates import exact
    from nmt_core.execution.pool import InProcess
    from nmt_core.store import storage

    shards = sorted(text.glob("*.parquet"))
    keyed = [str(out / "scratch" / f"keys-{shard.name}") for shard in shards]
    sides = (normalize.hashed(pl.col(side)).alias(side) for side in ("source", "target"))
    hashes = list(sides)
    for number, (shard, url) in enumerate(zip(shards, keyed, strict=True)):
        frame = storage.read(str(shard)).select(hashes)
        key = frame["source"].to_numpy() * np.uint64(0x9E3779B97F4A7C15) + frame["target"].to_numpy()
        places = np.arange(len(key), dtype=np.uint64) + np.uint64(number << 40)
        storage.write(pl.DataFrame({"place": places, "pair_key": key}), url, level=0)
    drops = exact.deduplicate(keyed, CleanConfig(deduplicate="exact"), str(out / "scratch"), InProcess())
    for number, (shard, url) in enumerate(zip(shards, drops, strict=True)):
        frame = storage.read(str(shard))
        kept = np.ones(frame.height, np.bool_)
        kept[exact.read_drops(url)["place"].to_numpy() - np.uint64(number << 40)] = False
        storage.write(frame.filter(kept), str(out / shard.name), level=LEVEL)
    shutil.rmtree(out / "scratch")


def polars_unique(text: Path, out: Path, pairs: int) -> None:
    """Deduplicate by `unique` of polars' streaming engine."""
    import polars as pl

    kept = pl.scan_parquet(text / "*.parquet").unique(maintain_order=False)
    kept.sink_parquet(out / "all.parquet", compression="zstd", compression_level=LEVEL, maintain_order=False)


def duckdb_distinct(text: Path, out: Path, pairs: int) -> None:
    """Deduplicate by `SELECT DISTINCT` of DuckDB."""
    _duckdb(out, f"SELECT DISTINCT source, target FROM read_parquet('{text}/*.parquet')")


def duckdb_by_hash(text: Path, out: Path, pairs: int) -> None:
    """Keep the first row of each hash, by its number. So the text is read twice and is in no hash table."""
    rows = f"read_parquet('{text}/*.parquet', filename=true, file_row_number=true)"
    number = f"(parse_filename(filename, true)::BIGINT * {SHARD_PAIRS} + file_row_number)"
    first = f"SELECT min({number}) FROM {rows} GROUP BY hash(source, target)"
    _duckdb(out, f"SELECT source, target FROM {rows} WHERE {number} IN ({first})")


def _duckdb(out: Path, query: str) -> None:
    import duckdb

    with duckdb.connect(config={"threads": 1, "memory_limit": DUCKDB_MEMORY}) as database:
        database.execute(f"SET temp_directory = '{out}/spilt'; SET preserve_insertion_order = false")
        options = f"FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {LEVEL}"
        database.execute(f"COPY ({query}) TO '{out}/all.parquet' ({options})")


CONTENDERS: dict[str, Callable[[Path, Path, int], None]] = {
    "ours": ours,
    "polars unique": polars_unique,
    "DuckDB DISTINCT": duckdb_distinct,
    "DuckDB by hash": duckdb_by_hash,
}


def count(folder: Path) -> int:
    """Return the number of rows of all Parquet files of a folder, by their footers."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


def size_of(folder: Path) -> int:
    """Return the bytes of the files of a folder."""
    return sum(file.stat().st_size for file in folder.iterdir())


if __name__ == "__main__":
    main()
