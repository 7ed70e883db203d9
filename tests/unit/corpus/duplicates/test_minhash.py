"""Near duplicates are found by MinHash, and others are not."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.config import CleanConfig, ScoreRule
from nmt_core.corpus.duplicates import exact, minhash
from nmt_core.execution.pool import InProcess, LocalWorkers, Workers
from nmt_core.store import storage

Pair = tuple[str, str]
WORDS_A_SIDE = 20


def drops_of(
    folder: Path,
    shards: Sequence[Sequence[Pair]],
    threshold: float = 0.8,
    scores: Sequence[float | None] = (),
    workers: Workers | None = None,
) -> dict[int, int]:
    """Return the place of each near-copy, and of the pair that is kept instead. Places count from 0 over all shards."""
    urls, first = [], 0
    for number, pairs in enumerate(shards):
        frame = pl.DataFrame(pairs, schema={"source": pl.String, "target": pl.String}, orient="row").select(
            "source",
            "target",
            pl.int_range(first, first + len(pairs), dtype=pl.UInt64).alias("place"),
            pl.struct("source", "target").hash().alias("pair_key"),
        )
        if scores:
            frame = frame.with_columns(score=pl.Series(scores[first : first + len(pairs)], dtype=pl.Float64))
        first += len(pairs)
        urls.append(str(folder / f"passed-{number:05d}.parquet"))
        storage.write(frame, urls[-1])
    best: dict[str, Any] = {"prefer": "best", "scores": (ScoreRule(scorer="a:b"),)} if scores else {}
    config = CleanConfig(near_duplicates=threshold, deduplicate="exact", **best)
    found = exact.deduplicate(urls, config, str(folder / "scratch"), workers or InProcess())
    drops = pl.concat([exact.read_drops(url) for url in found])
    return dict(drops.filter(reason=minhash.REASON).select("place", "keeper").iter_rows())


def random_pairs(count: int, seed: int) -> list[list[str]]:
    """Return random words of pairs, which share hardly any."""
    numbers = np.random.default_rng(seed).integers(0, 10**9, (count, 2 * WORDS_A_SIDE))
    return [[f"w{number}" for number in row] for row in numbers]


def with_changes(words: list[list[str]], changes: int) -> list[list[str]]:
    """Return the pairs with this many words of either side changed."""
    return [[f"{word}x" if at < changes else word for at, word in enumerate(pair)] for pair in words]


def text(words: list[list[str]]) -> list[Pair]:
    return [(" ".join(pair[0::2]), " ".join(pair[1::2])) for pair in words]


def jaccard(changes: int) -> float:
    return (2 * WORDS_A_SIDE - changes) / (2 * WORDS_A_SIDE + changes)


def test_the_likeness_is_estimated_to_about_0_04() -> None:
    rng = np.random.default_rng(1)
    for shared in (0, 20, 40, 60, 76, 80):
        words = rng.integers(0, 2**63, (2000, 160 - shared)).astype(np.uint64)
        starts = np.arange(0, 2000 * 80, 80)
        one, other = (
            minhash.signatures_of(minhash.least_hashes(side.ravel(), starts))
            for side in (words[:, :80], words[:, -80:])
        )

        error = minhash.likeness(one.T, other.T) - shared / (160 - shared)

        assert one.nbytes == 2000 * 64
        assert abs(error.mean()) < 0.01
        assert np.sqrt((error**2).mean()) < 0.05


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7, 0.8, 0.9, 1.0])
def test_pairs_that_are_alike_enough_share_a_band(threshold: float) -> None:
    rows = minhash.rows_per_band(threshold)

    assert 1 - (1 - threshold**rows) ** minhash.BANDS >= 0.98
    assert rows == 8 or 1 - (1 - threshold ** (rows + 1)) ** minhash.BANDS < 0.98


def test_even_the_lowest_threshold_has_a_band() -> None:
    assert minhash.rows_per_band(0.01) == 1


@pytest.mark.parametrize(
    ("changes", "least", "most"),
    [(0, 1.0, 1.0), (1, 0.99, 1.0), (2, 0.97, 1.0), (7, 0.0, 0.03), (13, 0.0, 0.0), (40, 0.0, 0.0)],
)
def test_copies_are_found_and_others_are_not(tmp_path: Path, changes: int, least: float, most: float) -> None:
    assert jaccard(2) > 0.9 and jaccard(7) < 0.71
    words = random_pairs(2500, seed=changes)
    others = with_changes(words, changes)
    for pair in others:
        pair[0::2] = reversed(pair[0::2])  # otherwise pairs without changes are copies, and not near-copies

    found = drops_of(tmp_path, [text(words), text(others)])

    assert least <= len(found) / 2500 <= most
    assert all(place == keeper + 2500 for place, keeper in found.items())


@pytest.mark.parametrize(
    ("pair", "other"),
    [
        (("The cat sat.", "Die Katze saß."), ("the CAT, sat", "die katze – saß!")),
        (("the cat sat", "die Katze saß"), ("sat the cat", "saß die die Katze")),
        (("one two three four five", "猫坐在垫子上看书"), ("one two three four five", "猫坐在垫子上看 书")),
    ],
)
def test_case_punctuation_order_and_repeats_do_not_matter(tmp_path: Path, pair: Pair, other: Pair) -> None:
    assert drops_of(tmp_path, [[pair], [other]], threshold=1.0) == {1: 0}


def test_the_same_word_in_the_other_language_is_another_word(tmp_path: Path) -> None:
    assert drops_of(tmp_path, [[("a b c d", "e f g h"), ("e f g h", "a b c d")]]) == {}


def test_a_pair_without_a_word_is_like_no_other(tmp_path: Path) -> None:
    assert drops_of(tmp_path, [[("...", "!"), ("?", "--"), ("a b", "c d"), ("b a", "d c")], [("!!", "?")]]) == {3: 2}
    assert drops_of(tmp_path, [[("...", "!")], []]) == {}


def test_copies_of_a_pair_are_none_of_its_near_copies(tmp_path: Path) -> None:
    assert drops_of(tmp_path, [[("a b", "c d"), ("a b", "c d"), ("b a", "d c")], [("a b", "c d")]]) == {2: 0}


def test_the_best_of_several_stays(tmp_path: Path) -> None:
    same = [("a b c", "d e f"), ("b a c", "e d f"), ("c a b", "f e d"), ("c b a", "f d e")]

    assert drops_of(tmp_path, [same[:2], same[2:]], scores=[0.1, None, 0.9, 0.9]) == {0: 2, 1: 2, 3: 2}


def test_many_pairs_in_one_band_do_not_hide_one_another(tmp_path: Path) -> None:
    """Many bands bring all these pairs together because of their one common word, but their similarity is a fifth."""
    pairs = [("same", f"left{number} right{number}") for number in range(400)]
    near_copies = [(source, f"right{number} left{number}") for number, (source, _) in enumerate(pairs)]

    found = drops_of(tmp_path, [pairs, near_copies], threshold=0.4)

    assert found == {400 + number: number for number in range(400)}


short_texts = st.lists(st.sampled_from("abcdefgh"), max_size=5).map(" ".join)


@settings(max_examples=25)
@given(
    pairs=st.lists(st.tuples(short_texts, short_texts), min_size=2, max_size=60),
    threshold=st.sampled_from([0.05, 0.3, 0.5, 0.7, 0.9, 1.0]),
    best=st.booleans(),
    small_group=st.sampled_from([1, 200]),
)
def test_a_second_pass_drops_nothing(pairs: list[Pair], threshold: float, best: bool, small_group: int) -> None:
    scores = [float(len(source) % 4) for source, _ in pairs] if best else []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(minhash, "_SMALL_GROUP", small_group)
        dropped = drops_of(Path(folder, "first"), [pairs[:20], pairs[20:]], threshold, scores)
        copies = {place for place, pair in enumerate(pairs) if pair in pairs[:place]}
        places = [place for place in range(len(pairs)) if place not in copies | dropped.keys()]
        left, scores = [pairs[place] for place in places], [scores[place] for place in places if best]

        assert drops_of(Path(folder, "second"), [left], threshold, scores) == {}


@pytest.mark.parametrize("size", [120, 240, 4_000])
def test_of_many_unlike_pairs_in_one_band_none_hides_a_copy(size: int) -> None:
    """A small group is compared together with others, and a large one alone. A second group is beside it here."""
    rng = np.random.default_rng(size)
    signatures = np.tile(rng.integers(0, 2**64, (size // 2, 8), np.uint64), (3, 1))
    keys = np.repeat(np.array([1, 2], np.uint64), [size, size // 2])
    records = np.column_stack([keys, np.arange(len(keys), dtype=np.uint64), signatures])

    lost, keepers = minhash.Band(0, 0.9, by_score=False).losers(records)

    assert sorted(lost.tolist()) == list(range(size // 2, size))
    assert (keepers == lost - size // 2).all()


def test_the_bytes_do_not_depend_on_the_number_of_workers(three_workers: LocalWorkers, tmp_path: Path) -> None:
    words = random_pairs(200, seed=1)
    shards = [text(words), text(with_changes(words, 2)), text(with_changes(words, 4)), []]
    drops_of(tmp_path / "one", shards)
    drops_of(tmp_path / "three", shards, workers=three_workers)

    scratch = (tmp_path / count / "scratch" for count in ("one", "three"))
    one, three = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in scratch)
    assert one == three
    assert len(one) == 4
