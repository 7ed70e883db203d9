"""Which copies of a pair go, over all shards of all corpora: a table of drops for each shard.

Rounds follow one another, and each sees only what the earlier ones left: copies of a pair, near-copies, too many pairs
with one source side, too many with one target side. A copy's `keeper` is the pair that stayed in its stead in that
round; a later round may drop it for a reason of its own.

Whether pairs are copies is decided by a key of 64 bits alone; their text is not compared. Of n different pairs, n^2 / 2
pairings may share a key by chance, each with a probability of 2^-64: that a single pair is lost so has a chance of
about 2 in 100,000 at 30 million pairs, and of 3 in 100 at a billion.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from nmt_core.config import CleanConfig
from nmt_core.corpus.duplicates import minhash, shuffle
from nmt_core.corpus.duplicates.shuffle import Indices, Words
from nmt_core.execution.pool import Workers
from nmt_core.store import storage

DUPLICATE = "duplicate"
TOO_MANY_OF_SOURCE = "too_many_of_source"
TOO_MANY_OF_TARGET = "too_many_of_target"
KNOBS = {
    DUPLICATE: "clean.deduplicate",
    minhash.REASON: "clean.near_duplicates",
    TOO_MANY_OF_SOURCE: "clean.max_per_source",
    TOO_MANY_OF_TARGET: "clean.max_per_target",
}
"""The knob that governs each reason."""


@dataclass(frozen=True)
class Copies:
    """A round in which at most `most` rows of each key stay."""

    reason: str
    column: str
    """Column of the shards that holds the key."""
    most: int
    by_score: bool
    """Whether the best stay, rather than the first."""

    @property
    def width(self) -> int:
        """See `Round`: key, place, and the score if it decides."""
        return 3 if self.by_score else 2

    @property
    def settles_shards(self) -> bool:
        """See `Round`. Where several rows of a key stay, a shard does not know the first of them."""
        return self.most == 1

    def records(self, shard: str, dropped: Words) -> Words:
        """See `Round`."""
        columns = [self.column, "place", "score"][: self.width]
        frame = storage.read(shard, columns)
        kept = ~np.isin(frame["place"].to_numpy(), dropped, assume_unique=True)
        records = np.empty((int(kept.sum()), self.width), np.uint64)
        for number, column in enumerate(columns):
            records[:, number] = frame[column].to_numpy()[kept].view(np.uint64)
        return records

    def losers(self, records: Words) -> tuple[Indices, Indices]:
        """See `Round`."""
        rows, starts = shuffle.groups(records, self.by_score)
        sizes = np.diff(starts, append=len(rows))
        rank = np.arange(len(rows)) - np.repeat(starts, sizes)
        keepers = np.repeat(rows[starts], sizes)
        lost = rank >= self.most
        return rows[lost], keepers[lost]


def deduplicate(shards: Sequence[str], config: CleanConfig, scratch: str, workers: Workers) -> list[str]:
    """Find the pairs to drop, in flat memory.

    Args:
        shards: Parquet files, ascending by place, with the columns place, pair_key, source_key, target_key (UInt64), as
            far as `config` asks for them; source and target for near-duplicates; score (Float64, null for none) if the
            best stay.
        config: which copies to drop.
        scratch: folder for intermediate files and for the result; empty, or left by a killed run of the same.
        workers: who does the tasks.

    Returns:
        For each shard the address of its drops, for `read_drops`.
    """
    if not shards:
        return []
    storage.sweep(scratch)
    drops = [shuffle.drops_url(scratch, "no", number) for number in range(len(shards))]
    for url in drops:
        storage.write(pl.DataFrame(schema=shuffle.DROPS), url)
    by_score = config.prefer == "best"
    if config.deduplicate != "none":
        pairs = Copies(DUPLICATE, "pair_key", 1, by_score)
        drops = shuffle.run(pairs, "pair", shards, drops, scratch, workers)
    if config.near_duplicates:
        drops = minhash.run(shards, drops, config.near_duplicates, by_score, scratch, workers)
    for side, most, reason in (
        ("source", config.max_per_source, TOO_MANY_OF_SOURCE),
        ("target", config.max_per_target, TOO_MANY_OF_TARGET),
    ):
        if most:
            copies = Copies(reason, f"{side}_key", most, by_score)
            drops = shuffle.run(copies, side, shards, drops, scratch, workers)
    storage.sweep(scratch)
    return drops


def read_drops(url: str) -> pl.DataFrame:
    """Drops of a shard, by place: place (UInt64), reason (String), keeper (UInt64, the place of what stayed)."""
    return storage.read(url)
