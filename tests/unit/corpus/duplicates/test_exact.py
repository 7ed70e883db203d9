"""Exact duplicates are found across shards, as plain Python finds them."""

import math
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.config import CleanConfig, ScoreRule
from nmt_core.corpus.duplicates import exact, shuffle
from nmt_core.execution.pool import InProcess, LocalWorkers, Workers
from nmt_core.store import storage

KEYS = ("pair_key", "source_key", "target_key")
SCHEMA = {"place": pl.UInt64, **dict.fromkeys(KEYS, pl.UInt64), "score": pl.Float64}
BEST: dict[str, Any] = {"prefer": "best", "scores": (ScoreRule(scorer="a:b"),)}

Drop = tuple[str, int]
Row = tuple[int, int, int, int, float | None]


def write_shards(folder: str, shards: Sequence[Sequence[Row]]) -> list[str]:
    urls = [f"{folder}/passed-{number:05d}.parquet" for number in range(len(shards))]
    for url, rows in zip(urls, shards, strict=True):
        storage.write(pl.DataFrame(rows, schema=SCHEMA, orient="row"), url)
    return urls


def drops_of(
    folder: str, shards: Sequence[Sequence[Row]], config: CleanConfig, workers: Workers | None = None
) -> dict[int, Drop]:
    """Return what is dropped, by place. The drops of each shard must be its own, in order."""
    urls = exact.deduplicate(write_shards(folder, shards), config, f"{folder}/scratch", workers or InProcess())
    found: dict[int, Drop] = {}
    for url, rows in zip(urls, shards, strict=True):
        drops = exact.read_drops(url)
        assert drops.schema == {"place": pl.UInt64, "reason": pl.String, "keeper": pl.UInt64}
        assert drops["place"].is_sorted()
        assert set(drops["place"]) <= {row[0] for row in rows}
        found |= {place: (reason, keeper) for place, reason, keeper in drops.iter_rows()}
    return found


def one_after_the_other(shards: Sequence[Sequence[Row]], config: CleanConfig) -> dict[int, Drop]:
    """Find duplicates in plain Python: sort, then count."""
    rows = [row for shard in shards for row in shard]
    rounds = [
        (1, "duplicate", int(config.deduplicate != "none")),
        (2, "too_many_of_source", config.max_per_source),
        (3, "too_many_of_target", config.max_per_target),
    ]
    dropped: dict[int, Drop] = {}
    for column, reason, most in rounds:
        if not most:
            continue
        left = sorted(row for row in rows if row[0] not in dropped)
        if config.prefer == "best":
            left.sort(key=lambda row: math.inf if row[4] is None or math.isnan(row[4]) else -row[4])
        kept: dict[int, list[int]] = {}
        for row in left:
            copies = kept.setdefault(row[column], [])
            if len(copies) < most:
                copies.append(row[0])
            else:
                dropped[row[0]] = reason, copies[0]
    return dropped


def spread(number: int) -> int:
    """Return a key of 64 bits, like a hash. 0 to 2 stay small, so that one bucket holds several keys."""
    return number if number < 3 else number * 0x9E3779B97F4A7C15 % 2**64


keys = st.integers(0, 9).map(spread)
scores = st.one_of(st.none(), st.sampled_from([math.nan, -1.0, 0.0, 0.25, 1.0]))
contents = st.lists(st.lists(st.tuples(keys, keys, keys, scores), max_size=12), min_size=1, max_size=5)


@settings(max_examples=60)
@given(
    contents=contents,
    mode=st.sampled_from(["none", "exact", "normalised"]),
    limits=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    best=st.booleans(),
    buckets=st.sampled_from([1, 4, 64]),
)
def test_it_drops_what_plain_python_drops(
    contents: list[list[tuple[int, int, int, float | None]]],
    mode: Any,
    limits: tuple[int, int],
    best: bool,
    buckets: int,
) -> None:
    shards: list[list[Row]] = [
        [(shard << 40 | 2 * line, *values) for line, values in enumerate(rows)] for shard, rows in enumerate(contents)
    ]
    config = CleanConfig(deduplicate=mode, max_per_source=limits[0], max_per_target=limits[1], **(BEST if best else {}))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffle, "buckets_for", lambda shards: buckets)
        assert drops_of(folder, shards, config) == one_after_the_other(shards, config)


def some_shards() -> list[list[Row]]:
    rng = np.random.default_rng(1)
    return [
        [
            (shard << 40 | line, spread(int(a)), spread(int(b)), spread(int(c)), float(score))
            for line, (a, b, c, score) in enumerate(rng.integers(0, 300, (200, 4)))
        ]
        for shard in range(5)
    ]


ALL_ROUNDS = CleanConfig(max_per_source=2, max_per_target=1, **BEST)


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_any_address_will_do(tmp_path: Path, scheme: str) -> None:
    folder = {"file": f"file://{tmp_path}", "memory": f"memory://{uuid.uuid4().hex}"}[scheme]

    assert drops_of(folder, some_shards(), ALL_ROUNDS) == one_after_the_other(some_shards(), ALL_ROUNDS)


def test_the_bytes_do_not_depend_on_the_number_of_workers(three_workers: LocalWorkers, tmp_path: Path) -> None:
    drops_of(str(tmp_path / "one"), some_shards(), ALL_ROUNDS)
    drops_of(str(tmp_path / "three"), some_shards(), ALL_ROUNDS, three_workers)

    scratch = (tmp_path / count / "scratch" for count in ("one", "three"))
    one, three = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in scratch)
    assert one == three
    assert len(one) == 5


def test_a_folder_that_a_killed_run_left_behind_does_no_harm(tmp_path: Path) -> None:
    expected = drops_of(str(tmp_path), some_shards(), ALL_ROUNDS)
    scratch = tmp_path / "scratch"
    (scratch / "pair-map-00001.bin").write_bytes(b"of the killed run")
    (scratch / "pair-map-00001.bin.0123abcd.partial").write_bytes(b"half of i")

    assert drops_of(str(tmp_path), some_shards(), ALL_ROUNDS) == expected
    assert len(list(scratch.iterdir())) == 5


def test_a_second_pass_drops_nothing(tmp_path: Path) -> None:
    dropped = drops_of(str(tmp_path / "first"), some_shards(), ALL_ROUNDS)
    left = [[row for row in shard if row[0] not in dropped] for shard in some_shards()]

    assert 0 < sum(map(len, left)) < 1000
    assert drops_of(str(tmp_path / "second"), left, ALL_ROUNDS) == {}


def test_without_rounds_nothing_is_dropped_and_no_column_is_asked_for(tmp_path: Path) -> None:
    url = str(tmp_path / "shard.parquet")
    storage.write(pl.DataFrame({"place": [1, 2]}, schema={"place": pl.UInt64}), url)

    (drops,) = exact.deduplicate([url], CleanConfig(deduplicate="none"), str(tmp_path / "scratch"), InProcess())

    assert exact.read_drops(drops).is_empty()


def test_no_shards_have_no_drops(tmp_path: Path) -> None:
    assert exact.deduplicate([], CleanConfig(), str(tmp_path), InProcess()) == []


def test_every_reason_has_a_remedy_that_exists() -> None:
    assert set(exact.REMEDIES) == {"duplicate", "near_duplicate", "too_many_of_source", "too_many_of_target"}
    for remedy in exact.REMEDIES.values():
        section, name = remedy.split(".")
        assert section == "clean" and name in CleanConfig.model_fields
