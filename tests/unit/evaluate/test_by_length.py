"""Groups by length: each sentence is in one group, and no group is tiny."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.config import LanguagesConfig
from nmt_core.evaluate.by_length import by_length, ranges, ranges_of_width
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.scoring import score

EN_DE = LanguagesConfig(source="en", target="de")


@given(st.lists(st.integers(0, 60), min_size=1, max_size=400))
def test_every_sentence_is_in_one_bucket_of_ten_or_more(lengths: list[int]) -> None:
    found = ranges(lengths)
    assert 1 <= len(found) <= 8
    assert all(first <= last for first, last in found)
    assert all(last < first for (_, last), (first, _) in pairwise(found))
    counts = [sum(first <= length <= last for length in lengths) for first, last in found]
    assert sum(counts) == len(lengths)
    assert len(found) == 1 or min(counts) >= 10


def test_many_sentences_make_buckets_of_about_one_size() -> None:
    lengths = [length for length in range(1, 81) for _ in range(20)]
    assert ranges(lengths) == [(first, first + 9) for first in range(1, 81, 10)]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=100), st.integers(1, 70))
def test_every_sentence_is_in_one_bucket_of_the_width(lengths: list[int], width: int) -> None:
    found = ranges_of_width(lengths, width)
    assert sum(sum(first <= length <= last for length in lengths) for first, last in found) == len(lengths)
    for first, last in found:
        assert first in lengths and last in lengths
        assert (max(first, 1) - 1) // width == (max(last, 1) - 1) // width
    assert found == sorted(found)


def test_buckets_of_ten_words_are_as_in_the_paper() -> None:
    assert ranges_of_width([*range(1, 35), 60, 61], 10) == [(1, 10), (11, 20), (21, 30), (31, 34), (60, 60), (61, 61)]


def test_the_bleu_of_a_group_is_computed_from_its_sentences() -> None:
    short = [f"eins zwei drei vier {number}" for number in range(20)]
    long = [f"eins zwei drei vier fünf sechs sieben acht {number}" for number in range(20)]
    wrong = [text.replace("drei", "nichts") for text in long]
    found = by_length(TestSet("news", short + long, short + long), short + wrong, EN_DE)
    assert [(one.shortest, one.longest, one.sentences, one.unit) for one in found] == [
        (5, 5, 20, "words"),
        (9, 9, 20, "words"),
    ]
    assert [one.mean for one in found] == [5, 9]
    assert found[0].bleu == 100
    assert found[1].bleu == pytest.approx(score("news", wrong, long, "de")[0].score, abs=0.01)


def test_without_spaces_characters_are_counted() -> None:
    test = TestSet("news", ["我是 学生。"], ["I am a student."])
    [found] = by_length(test, ["I am a student."], LanguagesConfig(source="zh"))
    assert (found.shortest, found.longest, found.unit) == (5, 5, "characters")
