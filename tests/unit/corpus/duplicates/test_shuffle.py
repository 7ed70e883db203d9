"""Rows with equal keys meet in one bucket, whatever shard they come from."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.corpus.duplicates import shuffle
from nmt_core.corpus.duplicates.shuffle import Indices, Words
from nmt_core.execution.pool import InProcess, Result, Task
from nmt_core.store import storage


@dataclass(frozen=True)
class Everyone:
    """Round that drops all rows of a key except the first, and checks what the shuffle brings to it."""

    reason: str = "late"
    width: int = 3
    settles_shards: bool = False
    seen: list[Words] = field(default_factory=list)

    def records(self, shard: str, dropped: Words) -> Words:
        frame = storage.read(shard, ["key", "place"]).filter(~pl.col("place").is_in(dropped))
        return np.stack([frame["key"].to_numpy(), frame["place"].to_numpy(), ~frame["place"].to_numpy()], axis=1)

    def losers(self, records: Words) -> tuple[Indices, Indices]:
        self.seen.append(records)
        rows, starts = shuffle.groups(records, by_score=False)
        group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
        late = np.setdiff1d(np.arange(len(rows)), starts)
        return rows[late], rows[starts[group[late]]]


@dataclass
class Twice:
    """Workers that do each task twice, like a cluster that has taken a worker for dead."""

    count: int = 1

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        for task in tasks:
            function(task)
            yield function(task)


class Killed(BaseException):
    pass


@dataclass
class Mortal:
    """Worker that dies before one of its tasks."""

    lives: int
    count: int = 1

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        for task in tasks:
            if not self.lives:
                raise Killed
            self.lives -= 1
            yield function(task)


def make_shards(folder: str, sizes: Sequence[int]) -> list[str]:
    rng = np.random.default_rng(1)
    urls = []
    for number, size in enumerate(sizes):
        keys = rng.integers(0, 40, size).astype(np.uint64) * np.uint64(0x0700000000000001)
        frame = pl.DataFrame({"key": keys, "place": np.arange(size, dtype=np.uint64) + np.uint64(1000 * number)})
        urls.append(f"{folder}/shard-{number}.parquet")
        storage.write(frame, urls[-1])
    return urls


def no_drops(folder: str, count: int) -> list[str]:
    urls = [shuffle.drops_url(folder, "no", number) for number in range(count)]
    for url in urls:
        storage.write(pl.DataFrame(schema=shuffle.DROPS), url)
    return urls


def late_ones(shards: Sequence[str]) -> dict[int, int]:
    """Compute the same drops without any shuffle: the place of each drop, and of the pair that is kept instead."""
    first: dict[int, int] = {}
    rows = pl.concat([storage.read(shard) for shard in shards]).select("key", "place").iter_rows()
    return {place: first[key] for key, place in rows if first.setdefault(key, place) != place}


def found(urls: Sequence[str]) -> dict[int, int]:
    return dict(pl.concat([storage.read(url) for url in urls]).select("place", "keeper").iter_rows())


@pytest.mark.parametrize(("shards", "buckets"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 4), (120, 64), (100_000, 1024)])
def test_a_bucket_is_as_large_as_two_shards(shards: int, buckets: int) -> None:
    assert shuffle.buckets_for(shards) == buckets


@pytest.mark.parametrize("sizes", [[0, 3, 0, 1], [0], [5], [0, 0]])
def test_each_section_is_read_by_itself(tmp_path: Path, sizes: list[int]) -> None:
    rows = np.arange(3 * sum(sizes), dtype=np.uint64).reshape(-1, 3)

    shuffle.write_sections(rows, np.array(sizes), str(tmp_path / "file.bin"))

    sections = [shuffle.read_section(str(tmp_path / "file.bin"), number).reshape(-1, 3) for number in range(len(sizes))]
    assert [len(section) for section in sections] == sizes
    assert np.array_equal(np.concatenate(sections), rows)


def test_rows_with_equal_keys_are_grouped_the_earliest_first() -> None:
    keys = np.array([7, 5, 7, 9, 5, 7, 2**64 - 1, 0], np.uint64)

    rows, starts = shuffle.groups(keys[:, None], by_score=False)

    assert [group.tolist() for group in np.split(rows, starts[1:])] == [[1, 4], [0, 2, 5]]


def test_rows_with_equal_keys_are_grouped_the_best_first() -> None:
    scores = np.array([0.1, np.nan, 0.9, -np.inf, 0.9, np.nan, 0.5])
    keys = np.array([1, 1, 1, 1, 1, 1, 2], np.uint64)
    records = np.stack([keys, keys, scores.view(np.uint64)], axis=1)

    rows, starts = shuffle.groups(records, by_score=True)

    assert rows.tolist() == [2, 4, 0, 3, 1, 5]
    assert starts.tolist() == [0]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([0.5, 1.0, math.nan])), max_size=40),
    st.lists(st.integers(0, 2), min_size=5, max_size=5),
    st.booleans(),
)
def test_no_direction_loses_its_only_row(drawn: list[tuple[int, int, float]], uses: list[int], by_score: bool) -> None:
    """A group has a row for both directions first, if there is one, and otherwise the rows of one direction."""
    drawn.sort(key=lambda row: row[1])
    places = [corpus << shuffle.LINE_BITS | line for line, (_, corpus, _) in enumerate(drawn)]
    scores = np.array([score for *_, score in drawn]).view(np.uint64)
    columns = [np.array([key for key, *_ in drawn], np.uint64), np.array(places, np.uint64), scores]
    rows, starts = shuffle.groups(np.stack(columns, axis=1), by_score, uses)

    by_key: dict[int, list[int]] = {}
    for number, (key, *_) in enumerate(drawn):
        by_key.setdefault(key, []).append(number)
    expected = []
    for _, members in sorted(by_key.items()):
        used = {number: uses[drawn[number][1]] for number in members}
        parts = [0] if shuffle.BOTH_DIRECTIONS in used.values() else sorted({*used.values()})
        for part in parts:
            chosen = [number for number in members if part in (shuffle.BOTH_DIRECTIONS, used[number])]
            worth = {number: np.nan_to_num(drawn[number][2], nan=-1) if by_score else 0 for number in chosen}
            order = sorted(chosen, key=lambda number: (used[number] != shuffle.BOTH_DIRECTIONS, -worth[number], number))
            expected += [order] if len(members) > 1 else []
    groups = [group.tolist() for group in np.split(rows, starts[1:])] if len(rows) else []
    assert groups == expected


def test_no_rows_have_no_groups() -> None:
    rows, starts = shuffle.groups(np.empty((0, 2), np.uint64), by_score=False)

    assert len(rows) == len(starts) == 0


@pytest.mark.parametrize("buckets", [1, 2, 64, 1024])
def test_what_is_dropped_does_not_depend_on_the_buckets(
    tmp_path: Path, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shuffle, "buckets_for", lambda shards: buckets)
    shards = make_shards(str(tmp_path), [30, 0, 200, 1])
    round_ = Everyone()

    drops = shuffle.run(round_, "late", shards, no_drops(str(tmp_path), 4), str(tmp_path), InProcess())
    settled = shuffle.run(
        Everyone(settles_shards=True), "late", shards, no_drops(str(tmp_path), 4), str(tmp_path), InProcess()
    )

    assert found(drops) == found(settled) == late_ones(shards)
    assert len(round_.seen) == buckets
    assert sum(len(records) for records in round_.seen) == 231
    for records in round_.seen:
        assert (np.diff(records[:, 1].astype(np.int64)) > 0).all()
        assert (records[:, 2] == ~records[:, 1]).all()


def test_drops_lie_with_their_shard_in_the_order_of_places(tmp_path: Path) -> None:
    shards = make_shards(str(tmp_path), [50, 50])

    drops = shuffle.run(Everyone(), "late", shards, no_drops(str(tmp_path), 2), str(tmp_path), InProcess())

    first, second = (storage.read(url) for url in drops)
    assert first.schema == second.schema == shuffle.DROPS
    assert first["place"].is_sorted() and first["place"].max() < 1000
    assert second["place"].is_sorted() and second["place"].min() >= 1000
    assert (second["keeper"] < second["place"]).all()
    assert set(second["reason"]) == {"late"}


def test_a_round_sees_only_what_earlier_ones_left_and_keeps_their_drops(tmp_path: Path) -> None:
    shards = make_shards(str(tmp_path), [50, 50])
    drops = shuffle.run(Everyone(), "one", shards, no_drops(str(tmp_path), 2), str(tmp_path), InProcess())
    before = found(drops)
    round_ = Everyone(reason="later still")

    drops = shuffle.run(round_, "two", shards, drops, str(tmp_path), InProcess())

    assert sum(len(records) for records in round_.seen) == 100 - len(before)
    assert found(drops) == before


def test_a_frequent_key_is_settled_in_the_shards_first(tmp_path: Path) -> None:
    urls = [str(tmp_path / f"shard-{number}.parquet") for number in range(4)]
    for number, url in enumerate(urls):
        places = np.arange(1_000 * number, 1_000 * number + 500, dtype=np.uint64)
        keys = np.where(places % 5 == 0, places, np.uint64(7 << 50))  # four fifths are one key, the others rare ones
        storage.write(pl.DataFrame({"key": keys, "place": places}), url)
    round_ = Everyone(settles_shards=True)

    drops = shuffle.run(round_, "late", urls, no_drops(str(tmp_path), 4), str(tmp_path), InProcess())

    assert found(drops) == late_ones(urls)
    assert len(found(drops)) == 4 * 400 - 1
    in_shards, in_buckets = round_.seen[:4], round_.seen[4:]
    assert sum(map(len, in_shards)) == 4 * 500
    assert sum(map(len, in_buckets)) == 4 * 101


def test_nothing_is_left_but_the_drops(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    shards = make_shards(str(tmp_path), [50, 50, 50])

    drops = shuffle.run(Everyone(), "late", shards, no_drops(str(scratch), 3), str(scratch), InProcess())

    assert sorted(str(file) for file in scratch.iterdir()) == drops


def test_a_task_may_be_done_twice(tmp_path: Path) -> None:
    shards = make_shards(str(tmp_path), [50, 50, 50])

    drops = shuffle.run(Everyone(), "late", shards, no_drops(str(tmp_path), 3), str(tmp_path), Twice())

    assert found(drops) == late_ones(shards)


@pytest.mark.parametrize("lives", range(8))
def test_a_round_that_was_killed_can_be_done_again(tmp_path: Path, lives: int) -> None:
    shards = make_shards(str(tmp_path), [50, 50, 50])
    with pytest.raises(Killed):
        shuffle.run(Everyone(), "late", shards, no_drops(str(tmp_path), 3), str(tmp_path), Mortal(lives))
    (tmp_path / "late-map-00001.bin.0123abcd.partial").write_bytes(b"half of i")

    drops = shuffle.run(Everyone(), "late", shards, no_drops(str(tmp_path), 3), str(tmp_path), InProcess())

    assert found(drops) == late_ones(shards)
