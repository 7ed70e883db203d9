import polars as pl
import pytest

from nmt_core.corpus import dedup, normalize

PAIRS = [
    ("A dog.", "Ein Hund."),
    ("A cat.", "Eine Katze."),
    ("A dog.", "Ein Hund."),
    ("a dog", "ein  Hund!"),
    ("A dog.", "Ein Dackel."),
]


def table(reasons: list[str | None] | None = None) -> pl.DataFrame:
    frame = pl.DataFrame(PAIRS, schema=["source", "target"], orient="row")
    return frame.with_columns(
        normalize.key(pl.col("source")).alias("source_key"),
        normalize.key(pl.col("target")).alias("target_key"),
        pl.Series("reason", reasons or [None] * len(PAIRS), dtype=pl.String),
        pl.lit("news").alias("corpus"),
        pl.int_range(1, len(PAIRS) + 1).alias("line"),
    )


@pytest.mark.parametrize(
    ("mode", "repeats"),
    [
        ("none", [False, False, False, False, False]),
        ("exact", [False, False, True, False, False]),
        ("normalised", [False, False, True, True, False]),
    ],
)
def test_all_but_the_first_copy_are_repeats(mode: dedup.Mode, repeats: list[bool]) -> None:
    found = table().with_columns(found=dedup.is_repeat(mode))["found"]

    assert found.to_list() == repeats


def test_a_dropped_pair_is_neither_first_nor_a_repeat() -> None:
    found = table(["empty", None, None, None, "empty"]).select(dedup.is_repeat("normalised")).to_series()

    assert found.to_list() == [False, False, False, True, False]


def test_where_the_first_copy_stands() -> None:
    places = dedup.first_copies(table(), table()[2:], "normalised")

    assert places.to_list() == ["news:1", "news:1", "news:5"]
    assert dedup.first_copies(table()[:2], table()[3:], "exact").to_list() == [None, None]
