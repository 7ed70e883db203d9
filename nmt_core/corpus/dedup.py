"""Which copies of a pair go: all but the first, in the order of the recipe's corpora and of their lines."""

from typing import Literal

import polars as pl

from nmt_core.corpus import normalize

Mode = Literal["none", "exact", "normalised"]
REASON = "duplicate"
KNOB = "clean.deduplicate"


def pair_key(mode: Mode) -> pl.Expr:
    """Struct of two UInt64 that is equal for pairs that count as copies.

    "exact" compares the normalised text, "normalised" ignores case, punctuation and spaces as well. Needs the columns
    source, target, source_key, target_key.
    """
    if mode == "exact":
        return pl.struct(source=normalize.hashed(pl.col("source")), target=normalize.hashed(pl.col("target")))
    return pl.struct(source="source_key", target="target_key")


def is_repeat(mode: Mode) -> pl.Expr:
    """Whether an earlier row without a `reason` holds a copy of this pair. Rows with a reason are no copies."""
    if mode == "none":
        return pl.lit(False)
    kept = pl.col("reason").is_null()
    return kept & ~pl.struct(kept.alias("kept"), pair_key(mode).alias("pair")).is_first_distinct()


def first_copies(pairs: pl.DataFrame, of: pl.DataFrame, mode: Mode) -> pl.Series:
    """Where the first copy of each pair of `of` stands in `pairs`, as "corpus:line" (String, in the order of `of`).

    Null for a pair that `pairs` does not hold.
    """
    firsts = pairs.select(pair=pair_key(mode), value=pl.format("{}:{}", "corpus", "line"))
    firsts = firsts.unique("pair", keep="first", maintain_order=True)
    return of.select(pair=pair_key(mode)).join(firsts, on="pair", how="left", maintain_order="left")["value"]
