import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.corpus.split import carve
from nmt_core.errors import StageError


def corpus(rows: list[tuple[str, str]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"source": pl.String, "target": pl.String}, orient="row")


DISTINCT = corpus([(f"word {number}", f"Wort {number}") for number in range(100)])


def test_the_parts_have_their_sizes_and_keep_the_order() -> None:
    carved = carve(DISTINCT, test_pairs=10, dev_pairs=5, seed=1)

    assert (carved.train.height, carved.test.height, carved.dev.height, carved.shared) == (85, 10, 5, 0)
    for part in (carved.train, carved.test, carved.dev):
        numbers = [int(source.split()[1]) for source in part["source"]]
        assert numbers == sorted(numbers)
        assert part.columns == ["source", "target"]


def test_the_seed_decides_and_the_order_of_the_text_does_not() -> None:
    def test_set(pairs: pl.DataFrame, seed: int) -> set[str]:
        return set(carve(pairs, test_pairs=10, dev_pairs=10, seed=seed).test["source"])

    assert test_set(DISTINCT, 1) == test_set(DISTINCT.reverse(), 1)
    assert test_set(DISTINCT, 1) != test_set(DISTINCT, 2)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60), st.integers(0, 3))
def test_no_part_shares_a_side_with_another(numbers: list[tuple[int, int]], seed: int) -> None:
    pairs = corpus([(f"{'Word' if s % 2 else 'word'} {s}", f"Wort {t}!") for s, t in numbers])
    try:
        carved = carve(pairs, test_pairs=2, dev_pairs=2, seed=seed)
    except StageError:
        return
    parts = carved.train, carved.test, carved.dev
    for side in ("source", "target"):
        seen = [set(part[side].str.to_lowercase()) for part in parts]
        assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    assert sum(part.height for part in parts) + carved.shared == pairs.height


def test_pairs_that_share_a_side_with_a_held_out_one_are_counted() -> None:
    pairs = corpus([("the same", f"Satz {number}") for number in range(5)] + DISTINCT.rows())
    carved = [carve(pairs, test_pairs=40, dev_pairs=1, seed=seed) for seed in range(4)]

    for parts in carved:
        held_out = pl.concat([parts.test, parts.dev])
        assert parts.shared == (4 if "the same" in held_out["source"] else 0)
    assert max(parts.shared for parts in carved) == 4


def test_too_little_text_names_the_numbers_and_the_knobs() -> None:
    with pytest.raises(
        StageError, match=r"100 clean pairs are too few to take 40 .*30.*\(30 would be left\).*split.test_pairs"
    ):
        carve(DISTINCT, test_pairs=40, dev_pairs=30, seed=1)
    with pytest.raises(StageError, match=r"corpus\.dev"):
        carve(corpus([("same", str(number)) for number in range(100)]), test_pairs=2, dev_pairs=2, seed=1)
