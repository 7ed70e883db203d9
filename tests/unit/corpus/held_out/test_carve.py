"""Dev and test sets that are taken out of the training text."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.corpus.held_out import carve as carving
from nmt_core.corpus.held_out.carve import HeldOutPairs, carve
from nmt_core.errors import StageError
from nmt_core.execution.pool import InProcess
from nmt_core.store import storage

SCHEMA = {"source": pl.String, "target": pl.String, "corpus": pl.String, "line": pl.Int64}
Shards = Callable[[pl.DataFrame, int], list[str]]


def corpus(rows: Sequence[tuple[str, str]]) -> pl.DataFrame:
    return pl.DataFrame([(*row, "news", line) for line, row in enumerate(rows, 1)], schema=SCHEMA, orient="row")


DISTINCT = corpus([(f"word {number}", f"Wort {number}") for number in range(100)])


def shards_of(folder: Path, pairs: pl.DataFrame, size: int) -> list[str]:
    paths = [str(folder / f"{start}.parquet") for start in range(0, pairs.height, size)]
    for path, start in zip(paths, range(0, pairs.height, size), strict=True):
        storage.write(pairs[start : start + size], path)
    return paths


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    return lambda pairs, size: shards_of(tmp_path, pairs, size)


def test_the_parts_have_their_sizes_and_keep_the_order(shards: Shards) -> None:
    carved = carve(shards(DISTINCT, 30), (10, 5), 1, InProcess())

    assert (carved.test.height, carved.dev.height) == (10, 5)
    assert carved.test["line"].is_sorted()
    assert carved.dev["line"].is_sorted()
    rest, sharing = carved.part(DISTINCT)
    assert rest.height == 85
    assert sharing.is_empty()


def test_only_the_corpora_that_are_named_are_drawn_from(shards: Shards) -> None:
    web = DISTINCT.with_columns(corpus=pl.lit("web"), source=pl.col("source") + "!")
    paths = shards(pl.concat([DISTINCT, web]), 30)

    carved = carve(paths, (30, 30), 1, InProcess(), ["web"])

    assert set(pl.concat([carved.test, carved.dev])["corpus"]) == {"web"}
    assert set(carve(paths, (30, 30), 1, InProcess()).test["corpus"]) == {"web", "news"}
    with pytest.raises(
        StageError, match=r"100 clean pairs are too few.*nothing is taken out of corpora that `mix` tags"
    ):
        carve(paths, (80, 30), 1, InProcess(), ["web"])


def test_the_seed_decides_and_neither_shards_nor_order_do(tmp_path: Path) -> None:
    def test_set(name: str, pairs: pl.DataFrame, size: int, seed: int) -> set[str]:
        (tmp_path / name).mkdir()
        return set(carve(shards_of(tmp_path / name, pairs, size), (10, 10), seed, InProcess()).test["source"])

    assert test_set("a", DISTINCT, 30, 1) == test_set("b", DISTINCT.reverse(), 7, 1)
    assert test_set("c", DISTINCT, 30, 1) != test_set("d", DISTINCT, 30, 2)


@pytest.mark.parametrize("size", [50, 1_000])
def test_a_pool_that_is_too_small_is_drawn_anew(shards: Shards, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Many pairs share one side, so that few of the lowest draws may be taken, in one shard or in many."""
    same = [("the same", f"Satz {number}") for number in range(300)]
    pairs = corpus(same + [(f"word {number}", f"Wort {number}") for number in range(100)])
    whole = carve(shards(pairs, 50), (20, 20), 1, InProcess())
    monkeypatch.setattr(carving, "_POOL_PAIRS", 0)
    monkeypatch.setattr(carving, "_POOL_FACTOR", 2)

    again = carve(shards(pairs, size), (20, 20), 1, InProcess())

    assert again.test.equals(whole.test)
    assert again.dev.equals(whole.dev)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60), st.integers(0, 3))
def test_no_part_shares_a_side_with_another(numbers: list[tuple[int, int]], seed: int) -> None:
    pairs = corpus([(f"{'Word' if s % 2 else 'word'} {s}", f"Wort {t}!") for s, t in numbers])
    with tempfile.TemporaryDirectory() as folder:
        try:
            carved = carve(shards_of(Path(folder), pairs, 17), (2, 2), seed, InProcess())
        except StageError:
            return
    train, sharing = carved.part(pairs)
    parts = train, carved.test, carved.dev
    for side in ("source", "target"):
        seen = [set(part[side].str.to_lowercase()) for part in parts]
        assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    assert sum(part.height for part in parts) + sharing.height == pairs.height


def test_pairs_that_share_a_side_with_a_held_out_one_are_told_apart_from_it(shards: Shards) -> None:
    same = [("the same", f"Satz {number}") for number in range(5)]
    pairs = corpus(same + [(f"word {number}", f"Wort {number}") for number in range(100)])
    paths = shards(pairs, 30)
    counts = []
    for seed in range(6):
        carved: HeldOutPairs = carve(paths, (40, 1), seed, InProcess())
        sharing = carved.part(pairs)[1]
        assert sharing.height == (4 if "the same" in pl.concat([carved.test, carved.dev])["source"] else 0)
        counts.append(sharing.height)
    assert max(counts) == 4


def test_too_little_text_names_the_numbers_and_the_options(shards: Shards) -> None:
    same = corpus([("same", str(number)) for number in range(100)])
    with pytest.raises(StageError, match=r"100 clean pairs are too few to take 2 .*2.*split.test_pairs.*corpus\.dev"):
        carve(shards(same, 30), (2, 2), 1, InProcess())
