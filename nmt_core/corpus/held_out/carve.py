"""Take dev and test text out of the training text, so that no held-out sentence is trained on, on either side.

The draw depends on a hash of seed and text, not on the place of a pair. Only the lowest hashes of each shard are
collected, so memory does not grow with the text. The result is the same as if all hashes were collected.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import polars as pl

from nmt_core.corpus import normalize
from nmt_core.corpus.held_out import folding
from nmt_core.errors import StageError
from nmt_core.execution.pool import Workers
from nmt_core.store import storage

_POOL_FACTOR = 4
_POOL_PAIRS = 1_000
_KEYS = ("source_key", "target_key")


@dataclass(frozen=True)
class HeldOutPairs:
    """Held-out pairs in text order: columns source, target, corpus, line, source_key, target_key."""

    test: pl.DataFrame
    dev: pl.DataFrame

    def to_frame(self) -> pl.DataFrame:
        """Return one table for storage, with the same columns and `part`."""
        parts = {"test": self.test, "dev": self.dev}
        return pl.concat([pairs.with_columns(part=pl.lit(name)) for name, pairs in parts.items()])

    @classmethod
    def from_frame(cls, table: pl.DataFrame) -> "HeldOutPairs":
        """Restore the pairs from a table made by `to_frame`."""
        return cls(*(table.filter(part=name).drop("part") for name in ("test", "dev")))

    def part(self, pairs: pl.DataFrame, languages: tuple[str, str] = ("", "")) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Split the pairs: the ones that share no side with the held-out pairs, and the ones that do.

        The held-out pairs themselves are in neither. Sides are shared if they are equal except for case, punctuation,
        spaces and what `folding.py` folds.
        """
        both = pl.concat([self.test, self.dev])
        keys = _keys_of(pairs, languages)
        shares = keys.select(pl.any_horizontal(pl.col(key).is_in(both[key].implode()) for key in _KEYS)).to_series()
        sharing = pairs.filter(shares).join(both, on=["corpus", "line"], how="anti", maintain_order="left")
        return pairs.filter(~shares), sharing


@dataclass(frozen=True)
class _Draw:
    """Task to draw from one shard."""

    shard: str
    number: int
    seed: int
    pairs: int
    corpora: tuple[str, ...]
    languages: tuple[str, str]


def carve(
    shards: Sequence[str],
    sizes: tuple[int, int],
    seed: int,
    workers: Workers,
    corpora: Collection[str] = (),
    languages: tuple[str, str] = ("", ""),
) -> HeldOutPairs:
    """Draw the pairs of the test set and then of the dev set. No two of them share a side.

    Args:
        shards: Parquet files with the columns source, target, corpus and line.
        sizes: number of pairs of the test set and of the dev set.
        seed: seed of the draw.
        workers: workers that read the shards.
        corpora: corpora whose pairs may be drawn. If there are none, or nothing is given, any corpus may be.
        languages: ISO 639 codes of both sides, for the keys. Empty means any language.

    Raises:
        StageError: there are too few pairs that share no side.
    """
    pool_pairs = _POOL_FACTOR * sum(sizes) + _POOL_PAIRS
    while True:
        task = _Draw("", 0, seed, pool_pairs + 1, tuple(corpora), languages)  # one more shows if there are others
        drawn = _drawn(shards, task, workers)
        pool = drawn.head(pool_pairs)
        test, rest = _take(pool, sizes[0])
        dev, _ = _take(rest, sizes[1])
        if (test.height, dev.height) == sizes:
            columns = ["source", "target", "corpus", "line", *_KEYS]
            return HeldOutPairs(*(part.sort("shard", "row").select(columns) for part in (test, dev)))
        if drawn.height <= pool_pairs:  # there is no more text
            raise too_little(drawn.height, sizes, left=0)
        pool_pairs *= _POOL_FACTOR


def _drawn(shards: Sequence[str], task: _Draw, workers: Workers) -> pl.DataFrame:
    """Return the pairs of all shards with the lowest draws. At most twice this number is held in memory."""
    drawn = pl.DataFrame()
    for lowest in workers.map(_lowest, [replace(task, shard=shard, number=n) for n, shard in enumerate(shards)]):
        drawn = pl.concat([drawn, lowest] if drawn.width else [lowest]).sort("draw", "shard", "row").head(task.pairs)
    return drawn


def too_little(pairs: int, sizes: tuple[int, int], left: int) -> StageError:
    """Return the error for a text that is too small to take dev and test text out of it."""
    return StageError(
        f"split: {pairs:,} clean pairs are too few to take {sizes[0]:,} for testing and {sizes[1]:,} for validation "
        f"and leave as many to train on ({left:,} would be left): lower split.test_pairs and split.dev_pairs, or "
        "name files in corpus.dev and corpus.test (nothing is taken out of corpora that `mix` tags or weights by 0)"
    )


def _lowest(draw: _Draw) -> pl.DataFrame:
    """Return the pairs of a shard with the lowest draws."""
    text = storage.read(draw.shard, ["source", "target", "corpus", "line"]).with_row_index("row")
    if draw.corpora:
        text = text.filter(pl.col("corpus").is_in(draw.corpora))
    drawn = text.with_columns(
        shard=pl.lit(draw.number),
        draw=normalize.hashed(pl.format("{}\t{}\t{}", pl.lit(draw.seed), "source", "target")),
    )
    lowest = drawn.bottom_k(draw.pairs, by=["draw", "row"])
    return lowest.with_columns(_keys_of(lowest, draw.languages).get_columns())


def _keys_of(pairs: pl.DataFrame, languages: tuple[str, str]) -> pl.DataFrame:
    """Return the keys of both sides (columns source_key, target_key)."""
    sides = zip(_KEYS, languages, strict=True)
    return pl.DataFrame({key: folding.keys(pairs[key.removesuffix("_key")], code) for key, code in sides})


def _take(drawn: pl.DataFrame, count: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the first `count` pairs of which no two share a side, and the pairs that share no side with them."""
    once = pl.all_horizontal(pl.col(key).is_first_distinct() for key in _KEYS)
    taken = drawn.filter(once).head(count)
    shares = pl.any_horizontal(pl.col(key).is_in(taken[key].implode()) for key in _KEYS)
    return taken, drawn.filter(~shares)
