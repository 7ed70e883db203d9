"""Sentences to show side by side."""

import polars as pl

from nmt_core.evaluate.examples import choose

ROWS = pl.DataFrame(
    {
        "source": ["a b", "a b c d", "a", "a b c", "a b c d"],
        "reference": ["one", "two words", "three", "four", "five"],
        "hypothesis": ["one", "zzz", "three", "fou", "five"],
    }
)


def test_the_longest_and_the_worst_come_first_and_equal_ones_in_their_order() -> None:
    assert choose(ROWS, "longest", 3) == [1, 4, 3]
    assert choose(ROWS, "worst", 2) == [1, 3]
    assert choose(ROWS, "worst", 99)[:2] == [1, 3] and len(choose(ROWS, "worst", 99)) == 5


def test_random_sentences_are_the_same_each_time() -> None:
    first = choose(ROWS, "random", 3)
    assert first == sorted(set(first)) == choose(ROWS, "random", 3) and len(first) == 3
    assert choose(ROWS, "random", 9) == [0, 1, 2, 3, 4]
