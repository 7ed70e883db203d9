"""Bring rows with equal keys together from all shards, and return the result to the shards, in constant memory.

A round has three steps of many similar tasks. *Map* writes a shard's records (key, place, ...) to one file, grouped by
the top bits of the key. *Reduce* reads a bucket, which is the same group of every shard and holds all records of its
keys. It writes the losers among them to one file, grouped by shard. *Gather* adds a shard's losers from all buckets to
its drops.

Both kinds of files have the same format: rows of 64-bit words in sections. A task reads only its own sections. It holds
a shard or a bucket in memory, and a bucket is about as large as two shards however large the corpus is. This has two
limits: there are at most 1,024 buckets, and all records of a very frequent key are in one bucket. A round with
`settles_shards` passes on only one of them from each shard. In another round, a million records of one key take about
70 MB if a record has two words. The result does not depend on the number of buckets or workers.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nmt_core.execution.pool import Workers
from nmt_core.store import storage

Words = NDArray[np.uint64]
Indices = NDArray[np.int64]

DROPS = {"place": pl.UInt64, "reason": pl.String, "keeper": pl.UInt64}
"""Columns of a shard's drops."""

LINE_BITS = 40
"""Number of low bits that hold the line in a place.

The place of a pair is one number, corpus << 40 | line. It rises with the recipe's order of corpora and their lines.
"""
BOTH_DIRECTIONS = 0
"""Use of a corpus that is training text from its source to its target and the other way round. Any other number is one
direction."""

_SHARDS_PER_BUCKET = 2
_MOST_BUCKETS = 1024
_WORD_BYTES = 8
_KEY, _PLACE, _SCORE = 0, 1, 2


class Round(Protocol):
    """Protocol of the comparison in a round. It is sent with the tasks, so it is small and can be pickled."""

    @property
    def reason(self) -> str:
        """Reason for which the losers are dropped."""

    @property
    def width(self) -> int:
        """Number of 64-bit words in a record. The first is its key, a uniform hash, and the second its place."""

    @property
    def settles_shards(self) -> bool:
        """True if `losers` may be applied to each shard before it is applied to the buckets.

        This requires that a key keeps one row, and that this row is the same whether it is chosen among all rows or
        among the rows that stay in their shards.
        """

    def records(self, shard: str, dropped: Words) -> Words:
        """Return the records of a shard's rows, (rows, width), by place, without the `dropped` places (ascending)."""

    def losers(self, records: Words) -> tuple[Indices, Indices]:
        """Return the rows to drop among a bucket's records (rows, width), and for each the row that stays in its place.

        The bucket holds all records of each of its keys, in the order of their places.
        """


@dataclass(frozen=True)
class _Files:
    """Names of a round's files. A task that reads from all shards needs no list of them."""

    scratch: str
    name: str
    shards: int
    buckets: int

    def mapped(self) -> list[str]:
        """Return the file of each shard. Its sections hold the records of each bucket.

        The last section holds the places of the losers and keepers found within the shard.
        """
        return [f"{self.scratch}/{self.name}-map-{shard:05d}.bin" for shard in range(self.shards)]

    def reduced(self) -> list[str]:
        """Return the file of each bucket. Its sections hold the places of losers and keepers of each shard."""
        return [f"{self.scratch}/{self.name}-reduce-{bucket:05d}.bin" for bucket in range(self.buckets)]


@dataclass(frozen=True)
class _Map:
    round: Round
    shard: str
    drops: str
    buckets: int
    out: str


@dataclass(frozen=True)
class _Reduce:
    round: Round
    files: _Files
    bucket: int
    out: str


@dataclass(frozen=True)
class _Gather:
    reason: str
    files: _Files
    shard: int
    drops: str
    out: str


def run(
    round_: Round, name: str, shards: Sequence[str], drops: Sequence[str], scratch: str, workers: Workers
) -> list[str]:
    """Run one round over all shards.

    Args:
        round_: comparison to run.
        name: prefix of its files in `scratch`, different for each round.
        shards: addresses that `round_` understands, ascending by place.
        drops: addresses of the earlier drops, one for each shard. They are removed after the round.
        scratch: folder for intermediate files, which are all removed.
        workers: workers that run the tasks.

    Returns:
        Addresses of the new drops, which include the earlier ones.
    """
    files = _Files(scratch, name, len(shards), buckets_for(len(shards)))
    mapped, reduced = files.mapped(), files.reduced()
    gathered = [drops_url(scratch, name, number) for number in range(len(shards))]
    tasks = zip(shards, drops, mapped, strict=True)
    do(workers.map(_map, (_Map(round_, shard, old, files.buckets, out) for shard, old, out in tasks)))
    do(workers.map(_reduce, (_Reduce(round_, files, bucket, out) for bucket, out in enumerate(reduced))))
    joined = enumerate(zip(drops, gathered, strict=True))
    do(workers.map(_gather, (_Gather(round_.reason, files, shard, old, out) for shard, (old, out) in joined)))
    storage.remove([*mapped, *reduced, *drops])
    return gathered


def buckets_for(shards: int) -> int:
    """Return the number of buckets, a power of two, with which a bucket is no larger than two shards."""
    buckets = -(-shards // _SHARDS_PER_BUCKET)
    return min(_MOST_BUCKETS, 1 << max(0, buckets - 1).bit_length())


def drops_url(scratch: str, name: str, shard: int) -> str:
    """Return the address of a shard's drops after a round."""
    return f"{scratch}/{name}-drops-{shard:05d}.parquet"


def groups(records: Words, by_score: bool, uses: Sequence[int] = ()) -> tuple[Indices, Indices]:
    """Return the rows whose key occurs more than once, ordered by group, and the start of each group.

    The first row of a group is the one to keep: the one with the highest score (the third word; NaN is below all) if
    `by_score`, and the earliest among equals.

    Args:
        records: see `Round`.
        by_score: True if the records have a score.
        uses: `BOTH_DIRECTIONS` or a direction, for each corpus by number. A row of a corpus for both directions stays
            before all others, and without such a row each direction is a group, so that none loses its only row. Empty
            means that all corpora have the same use.
    """
    keys = np.ascontiguousarray(records[:, _KEY])
    order = np.argsort(keys)  # the order of equal keys is arbitrary
    keys = keys[order]
    same = np.zeros(len(keys) + 1, np.bool_)  # True if equal to the previous key; the first has none
    same[1:-1] = keys[1:] == keys[:-1]
    shared = same[1:] | same[:-1]
    rows = order[shared]
    first = ~same[:-1][shared]
    group = np.cumsum(first)
    if not by_score and not uses:
        return np.sort(group << 32 | rows) & 0xFFFFFFFF, np.flatnonzero(first)
    criteria: list[NDArray[Any]] = [rows]  # the last one decides first
    if by_score:
        criteria.append(-np.ascontiguousarray(records[rows, _SCORE]).view(np.float64))  # NaN sorts last
    if uses:
        use = np.asarray(uses)[records[rows, _PLACE] >> np.uint64(LINE_BITS)]
        has_both = np.zeros(len(rows) + 1, np.bool_)
        has_both[group[use == BOTH_DIRECTIONS]] = True
        part = np.where(has_both[group], BOTH_DIRECTIONS, use)
        criteria += [use != BOTH_DIRECTIONS, part]
    order = np.lexsort((*criteria, group))
    if uses:
        group, part = group[order], part[order]
        first[1:] = (group[1:] != group[:-1]) | (part[1:] != part[:-1])
    return rows[order], np.flatnonzero(first)


def _map(task: _Map) -> None:
    dropped = storage.read(task.drops, ["place"])["place"].to_numpy()
    records = task.round.records(task.shard, dropped)
    settled = np.empty((0, 2), np.uint64)
    if task.round.settles_shards:
        losers, keepers = task.round.losers(records)
        settled = np.stack([records[losers, _PLACE], records[keepers, _PLACE]], axis=1)
        records = np.delete(records, losers, axis=0)
    # Two shifts: a single shift by 64 bits, which one bucket would need, is undefined.
    bits = np.uint64(task.buckets.bit_length() - 1)
    buckets = (records[:, _KEY] >> np.uint64(1) >> (np.uint64(63) - bits)).astype(np.uint16)
    order = np.argsort(buckets, kind="stable")  # a radix sort, because the keys have 16 bits
    words = np.bincount(buckets, minlength=task.buckets) * task.round.width
    content = np.concatenate([records[order].ravel(), settled.ravel()])
    write_sections(content[:, None], np.append(words, settled.size), task.out)


def _reduce(task: _Reduce) -> None:
    sections = [read_section(file, task.bucket).reshape(-1, task.round.width) for file in task.files.mapped()]
    shard_of = np.repeat(np.arange(len(sections)), [len(section) for section in sections])
    records = np.concatenate(sections)
    del sections
    losers, keepers = task.round.losers(records)
    order = np.argsort(losers)
    losers, keepers = losers[order], keepers[order]
    rows = np.stack([records[losers, _PLACE], records[keepers, _PLACE]], axis=1)
    write_sections(rows, np.bincount(shard_of[losers], minlength=task.files.shards), task.out)


def _gather(task: _Gather) -> None:
    files = task.files
    lost = _pairs(np.concatenate([read_section(file, task.shard) for file in files.reduced()]))
    settled = _pairs(read_section(files.mapped()[task.shard], files.buckets))
    # A row that stayed in its shard may have lost to a row of another shard.
    further = settled.join(lost.select(keeper="place", final="keeper"), on="keeper", how="left")
    settled = further.select("place", keeper=pl.coalesce("final", "keeper"))
    new = pl.concat([lost, settled]).with_columns(reason=pl.lit(task.reason))
    old = storage.read(task.drops)
    storage.write(pl.concat([old, new.select(*DROPS)]).sort("place"), task.out)


def _pairs(words: Words) -> pl.DataFrame:
    """Return a table of the places of losers and keepers, which alternate in `words`."""
    return pl.DataFrame({"place": words[::2], "keeper": words[1::2]})


def write_sections(rows: Words, sizes: Indices, url: str) -> None:
    """Write rows that are ordered by section. `sizes` is the number of rows of each section."""
    bounds = np.zeros(len(sizes) + 1, np.uint64)
    np.cumsum(sizes, out=bounds[1:])
    bounds = bounds * np.uint64(rows.shape[1] * _WORD_BYTES) + np.uint64(bounds.nbytes)
    storage.write_bytes([bounds.data, np.ascontiguousarray(rows).data], url)


def read_section(url: str, number: int) -> Words:
    """Return the words of a section, one row after the other."""
    start = number * _WORD_BYTES
    begin, end = np.frombuffer(storage.read_bytes(url, start, start + 2 * _WORD_BYTES), np.uint64).tolist()
    return np.frombuffer(storage.read_bytes(url, begin, end), np.uint64)


def do(results: Iterator[None]) -> None:
    """Wait until all tasks are done."""
    deque(results, maxlen=0)
