"""Dev and test text out of the training text, so that no held-out sentence is trained on, on either side."""

from dataclasses import dataclass

import polars as pl

from nmt_core.corpus import normalize
from nmt_core.errors import StageError


@dataclass(frozen=True)
class Carved:
    """Training text and what was taken out of it; each table keeps the columns and the order of the text."""

    train: pl.DataFrame
    test: pl.DataFrame
    dev: pl.DataFrame
    shared: int
    """Pairs that went from the training text because they share a side with a held-out pair."""


def carve(pairs: pl.DataFrame, *, test_pairs: int, dev_pairs: int, seed: int) -> Carved:
    """Take out `test_pairs` and then `dev_pairs` pairs, drawn by `seed` and by their text, not by their place.

    `pairs` has the columns source and target. Sides count as shared if they are equal but for case, punctuation and
    spaces. Pairs that share a side with a held-out one go nowhere: they would leak.

    Raises:
        StageError: there is too little text.
    """
    drawn = _in_order_of_draw(pairs, seed)
    test, rest = _take(drawn, test_pairs)
    dev, rest = _take(rest, dev_pairs)
    wanted = test_pairs + dev_pairs
    if test.height + dev.height < wanted or rest.height < wanted:
        raise StageError(
            f"split: {pairs.height:,} clean pairs are too few to take {test_pairs:,} for testing and {dev_pairs:,} for "
            f"validation and to leave as many to train on ({rest.height:,} would be left): lower split.test_pairs and "
            "split.dev_pairs, or name files in corpus.dev and corpus.test"
        )
    train, test, dev = (part.sort("place").select(pairs.columns) for part in (rest, test, dev))
    return Carved(train, test, dev, shared=pairs.height - train.height - test.height - dev.height)


def _in_order_of_draw(pairs: pl.DataFrame, seed: int) -> pl.DataFrame:
    draw = normalize.hashed(pl.format("{}\t{}\t{}", pl.lit(seed), "source", "target"))
    return pairs.with_columns(
        place=pl.int_range(pl.len()),
        draw=draw,
        source_key=normalize.key(pl.col("source")),
        target_key=normalize.key(pl.col("target")),
    ).sort("draw", "place")


def _take(drawn: pl.DataFrame, count: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The first `count` pairs of which no two share a side, and the pairs that share no side with these."""
    once = pl.col("source_key").is_first_distinct() & pl.col("target_key").is_first_distinct()
    taken = drawn.filter(once).head(count)
    shares = pl.col("source_key").is_in(taken["source_key"].implode()) | pl.col("target_key").is_in(
        taken["target_key"].implode()
    )
    return taken, drawn.filter(~shares)
