"""Weights, caps and temperatures of corpora."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.config import MixConfig, MixRule
from nmt_core.corpus import mix
from nmt_core.execution.pool import InProcess
from nmt_core.store import storage

SIZES = {"big": 4_000, "small": 500}
TEXT = pl.DataFrame(
    {
        "source": [f"{name} {line}" for name, size in SIZES.items() for line in range(1, size + 1)],
        "target": [f"{name} {line}" for name, size in SIZES.items() for line in range(1, size + 1)],
        "corpus": [name for name, size in SIZES.items() for _ in range(size)],
        "line": [line for size in SIZES.values() for line in range(1, size + 1)],
    }
)


def mixed(folder: Path, config: MixConfig, cuts: tuple[int, ...] = (700,)) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The mixture of `TEXT`, cut into shards at these rows."""
    edges = [0, *cuts, TEXT.height]
    shards = [TEXT[start:end] for start, end in pairwise(edges)]
    paths = [str(folder / f"{number}.parquet") for number in range(len(shards))]
    for shard, path in zip(shards, paths, strict=True):
        storage.write(shard, path)
    found = mix.rates(config, paths, InProcess())
    parts = [mix.mixed(shard, found, config.seed) for shard in shards]
    return pl.concat(taken for taken, _ in parts), pl.concat(left for _, left in parts)


def counts(pairs: pl.DataFrame) -> dict[str, int]:
    return dict(pairs["corpus"].value_counts(name="count").iter_rows())


def test_without_rules_the_text_stays_as_it_is(tmp_path: Path) -> None:
    taken, left = mixed(tmp_path, MixConfig())

    assert taken.equals(TEXT)
    assert left.is_empty()


def test_a_weight_repeats_each_pair_as_often_as_it_says_and_some_once_more(tmp_path: Path) -> None:
    taken, left = mixed(tmp_path, MixConfig(corpora=(MixRule(corpus="small", weight=2.3),)))

    times = taken.filter(corpus="small")["line"].value_counts(name="count")
    assert set(times["count"]) == {2, 3}
    assert times.height == SIZES["small"]
    assert (times["count"] == 3).sum() == pytest.approx(0.3 * SIZES["small"], rel=0.2)
    assert counts(taken)["big"] == SIZES["big"]
    assert left.is_empty()


def test_copies_of_a_pair_stand_side_by_side_in_the_order_of_the_text(tmp_path: Path) -> None:
    taken, _ = mixed(tmp_path, MixConfig(corpora=(MixRule(corpus="small", weight=2),)))

    lines = taken.filter(corpus="small")["line"].to_list()
    assert lines == [line for line in range(1, SIZES["small"] + 1) for _ in range(2)]


def test_a_weight_below_one_leaves_pairs_out_and_says_which(tmp_path: Path) -> None:
    taken, left = mixed(tmp_path, MixConfig(corpora=(MixRule(corpus="big", weight=0.25),)))

    assert counts(taken)["big"] == pytest.approx(0.25 * SIZES["big"], rel=0.1)
    assert pl.concat([taken, left]).sort("corpus", "line").equals(TEXT.sort("corpus", "line"))


def test_a_weight_of_nothing_takes_nothing(tmp_path: Path) -> None:
    taken, left = mixed(tmp_path, MixConfig(corpora=(MixRule(corpus="small", weight=0),)))

    assert counts(taken) == {"big": SIZES["big"]}
    assert counts(left) == {"small": SIZES["small"]}


@pytest.mark.parametrize("most", [1, 100, 499, 3_999])
def test_a_cap_is_never_exceeded_and_nearly_reached(tmp_path: Path, most: int) -> None:
    taken, _ = mixed(tmp_path, MixConfig(corpora=(MixRule(corpus="big", max_pairs=most),)))

    assert most - 2 <= counts(taken).get("big", 0) <= most


@pytest.mark.parametrize("temperature", [1.5, 2.0, 5.0])
def test_temperature_samples_large_corpora_down_and_small_ones_up(tmp_path: Path, temperature: float) -> None:
    taken, left = mixed(tmp_path, MixConfig(temperature=temperature))

    wanted = (SIZES["big"] / SIZES["small"]) ** (1 / temperature)
    assert counts(taken)["big"] / counts(taken)["small"] == pytest.approx(wanted, rel=0.05)
    assert counts(taken)["small"] > SIZES["small"]
    assert taken.height == pytest.approx(TEXT.height, rel=0.02)
    assert counts(left) == {"big": SIZES["big"] - counts(taken)["big"]}
    once = taken.unique(maintain_order=True)
    assert pl.concat([once, left]).sort("corpus", "line").equals(TEXT.sort("corpus", "line"))


@given(
    sizes=st.lists(st.integers(0, 10**9), min_size=1, max_size=6),
    weights=st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=6, max_size=6),
    temperature=st.floats(1, 100),
)
def test_temperature_changes_the_shares_and_not_the_sum(
    sizes: list[int], weights: list[float], temperature: float
) -> None:
    rules = tuple(MixRule(corpus=str(n), weight=weight) for n, weight in enumerate(weights))
    bins = {str(n): np.array([size], np.int64) for n, size in enumerate(sizes)}
    plain, evened = (mix.rates_of(bins, MixConfig(temperature=t, corpora=rules)) for t in (1.0, temperature))

    assert [rate.times for rate in plain.values()] == weights[: len(sizes)]
    totals = [sum(rate.times * sizes[int(name)] for name, rate in found.items()) for found in (plain, evened)]
    assert totals[1] == pytest.approx(totals[0], rel=1e-6)


def test_a_corpus_that_is_left_out_takes_no_part_in_the_temperature(tmp_path: Path) -> None:
    taken, left = mixed(tmp_path, MixConfig(temperature=3.0, corpora=(MixRule(corpus="small", weight=0),)))

    assert counts(taken) == {"big": SIZES["big"]}
    assert counts(left) == {"small": SIZES["small"]}


def test_temperature_looks_at_what_is_left_under_the_cap(tmp_path: Path) -> None:
    rules = (MixRule(corpus="big", max_pairs=500),)
    taken, _ = mixed(tmp_path, MixConfig(temperature=5.0, corpora=rules))

    assert counts(taken)["small"] == pytest.approx(counts(taken)["big"], rel=0.05)


def test_a_tag_stands_before_each_source_sentence_of_its_corpus(tmp_path: Path) -> None:
    taken, _ = mixed(tmp_path, MixConfig(corpora=(MixRule(corpus="small", tag="<BT>"),)))

    small, big = taken.filter(corpus="small"), taken.filter(corpus="big")
    assert small["source"].str.starts_with("<BT> small ").all()
    assert small["target"].str.starts_with("small ").all()
    assert not big["source"].str.contains("<BT>").any()


def test_the_draw_depends_on_the_seed_and_not_on_the_shards(tmp_path: Path) -> None:
    def draw(name: str, seed: int, cuts: tuple[int, ...]) -> pl.DataFrame:
        (tmp_path / name).mkdir()
        rules = (MixRule(corpus="big", weight=0.5), MixRule(corpus="small", max_pairs=100, weight=1.5))
        return mixed(tmp_path / name, MixConfig(seed=seed, corpora=rules), cuts)[0]

    assert draw("a", 1, (700,)).equals(draw("b", 1, (13, 2_000, 4_100)))
    assert not draw("c", 1, ()).equals(draw("d", 2, ()))
