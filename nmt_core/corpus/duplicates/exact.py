"""Find the copies to drop, over all shards of all corpora, and write a table of drops for each shard.

There are four rounds: copies of a pair, near copies, too many pairs with one source side, and too many with one target
side. Each round sees only the pairs that the earlier rounds left. The `keeper` of a copy is the pair that stayed in its
place in that round. A later round may drop the keeper for its own reason.

Pairs are copies if a 64-bit key is equal. Their text is not compared. Among n different pairs, each of n^2 / 2
combinations shares a key by chance with a probability of 2^-64. The probability that one pair is lost in this way is
about 2 in 100,000 at 30 million pairs, and 3 in 100 at a billion.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from nmt_core.config import CleanConfig
from nmt_core.corpus.duplicates import directions, minhash, shuffle
from nmt_core.corpus.duplicates.shuffle import Indices, Words
from nmt_core.execution.pool import Workers
from nmt_core.store import storage

DUPLICATE = "duplicate"
TOO_MANY_OF_SOURCE = "too_many_of_source"
TOO_MANY_OF_TARGET = "too_many_of_target"
REMEDIES = {
    DUPLICATE: "clean.deduplicate",
    minhash.REASON: "clean.near_duplicates",
    TOO_MANY_OF_SOURCE: "clean.max_per_source",
    TOO_MANY_OF_TARGET: "clean.max_per_target",
}
"""Option that governs each reason."""


@dataclass(frozen=True)
class Copies:
    """A round in which at most `most` rows of each key stay."""

    reason: str
    column: str
    """Column of the shards that holds the key."""
    most: int
    by_score: bool
    """True if the best rows stay, and not the first ones."""
    uses: tuple[int, ...] = ()
    """Directions that each corpus serves, by its number (see `shuffle.groups`)."""

    @property
    def width(self) -> int:
        """Number of words in a record (see `Round`): key, place, and the score if it decides."""
        return 3 if self.by_score else 2

    @property
    def settles_shards(self) -> bool:
        """True if one row of each key stays (see `Round`). Otherwise a shard cannot know which rows are first."""
        return self.most == 1

    def records(self, shard: str, dropped: Words) -> Words:
        """Return the records of a shard (see `Round`)."""
        columns = [self.column, "place", "score"][: self.width]
        frame = storage.read(shard, columns)
        kept = ~np.isin(frame["place"].to_numpy(), dropped, assume_unique=True)
        records = np.empty((int(kept.sum()), self.width), np.uint64)
        for number, column in enumerate(columns):
            records[:, number] = frame[column].to_numpy()[kept].view(np.uint64)
        return records

    def losers(self, records: Words) -> tuple[Indices, Indices]:
        """Return the rows to drop and their keepers (see `Round`)."""
        rows, starts = shuffle.groups(records, self.by_score, self.uses)
        sizes = np.diff(starts, append=len(rows))
        rank = np.arange(len(rows)) - np.repeat(starts, sizes)
        keepers = np.repeat(rows[starts], sizes)
        lost = rank >= self.most
        return rows[lost], keepers[lost]


def deduplicate(
    shards: Sequence[str], config: CleanConfig, scratch: str, workers: Workers, pairs: Sequence[Sequence[str]] = ()
) -> list[str]:
    """Find the pairs to drop, in constant memory.

    Args:
        shards: Parquet files, ascending by place. They have the columns place, pair_key, source_key and target_key
            (UInt64) that `config` needs; source and target for near duplicates; and score (Float64, null for none) if
            the best stay.
        config: options that define which copies to drop.
        scratch: folder for intermediate files and for the result. It is empty, or left by a killed run of the same
            task.
        workers: workers that run the tasks.
        pairs: pairs of languages of each corpus, by its number, the direction of its files first. A copy or near copy
            of a row that serves another direction alone is not dropped. Empty means that there is one pair of
            languages.

    Returns:
        The address of each shard's drops, for `read_drops`.
    """
    if not shards:
        return []
    storage.sweep(scratch)
    drops = [shuffle.drops_url(scratch, "no", number) for number in range(len(shards))]
    for url in drops:
        storage.write(pl.DataFrame(schema=shuffle.DROPS), url)
    by_score, uses = config.prefer == "best", directions.uses_of(pairs)
    if config.deduplicate != "none":
        copies = Copies(DUPLICATE, "pair_key", 1, by_score, uses)
        drops = shuffle.run(copies, "pair", shards, drops, scratch, workers)
    if config.near_duplicates:
        band = minhash.Band(0, config.near_duplicates, by_score, uses)
        drops = minhash.run(shards, drops, band, scratch, workers, directions.salts_of(pairs))
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
    """Return the drops of a shard by place: place (UInt64), reason (String), keeper (UInt64, place of the keeper)."""
    return storage.read(url)
