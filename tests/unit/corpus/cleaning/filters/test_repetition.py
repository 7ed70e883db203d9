"""The filter of repetition: runs of one character, and of words."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.corpus.cleaning.filters.repetition import _Lists

Verdict = Callable[..., tuple[str | None, str | None]]
OTHER = "Etwas ganz anderes steht hier auf dieser Seite"


@pytest.mark.parametrize("character", ["o", "ü", "이", "😀", "-"])
def test_runs_of_one_character(verdict: Verdict, character: str) -> None:
    def text(times: int) -> str:
        return f"The word is l{character * times}ng and ends there"

    options = {"min_script_share": 0, "min_letter_share": 0}
    assert verdict((text(20), OTHER), **options) == (None, None)
    assert verdict((text(21), OTHER), **options) == ("repeated_characters", "21")
    assert verdict((OTHER, text(21)), **options) == ("repeated_characters", "21")
    assert verdict((text(30), OTHER), max_repeated_characters=0, **options) == (None, None)


@pytest.mark.parametrize("run", ["go", "you go", "go and go on", "please wait for me"])
def test_runs_of_words(verdict: Verdict, run: str) -> None:
    def text(times: int) -> str:
        return f"He says: {', '.join([run] * times)} home!"

    assert verdict((text(3), OTHER)) == (None, None)
    assert verdict((text(4).title(), OTHER)) == ("repeated_words", "4")
    assert verdict((text(5), OTHER), max_repeated_words=4) == ("repeated_words", "5")
    assert verdict((text(5), OTHER), max_repeated_words=0) == (None, None)


def test_how_long_a_repeated_run_may_be_is_the_recipes(verdict: Verdict) -> None:
    pair = (f"He says: {', '.join(['please wait for me now'] * 4)}!", f"{OTHER}, und dann ist es zu Ende")

    assert verdict(pair) == (None, None)
    assert verdict(pair, longest_repeated_run=5) == ("repeated_words", "4")


def test_repetition_ends_with_the_sentence(judged: Callable[..., object]) -> None:
    table = judged([("go go", "los"), ("go go", "los"), ("go " * 20, "los"), ("go", "auf")], max_length_ratio=100)

    assert table["reason"].to_list() == [None, None, "repeated_words", None]  # type: ignore[index]


def test_where_characters_are_words_a_single_one_may_be_repeated(verdict: Verdict) -> None:
    assert verdict(("He laughed loudly at that.", "他大笑哈哈哈哈哈哈。"), "en-zh") == (None, None)
    assert verdict(("Very good indeed, very good.", "很好很好很好很好"), "en-zh") == ("repeated_words", "4")


@settings(max_examples=300)
@given(st.lists(st.text("ab", max_size=12), max_size=5), st.integers(1, 3), st.integers(1, 3))
def test_it_finds_what_a_backreference_finds(texts: list[str], length: int, times: int) -> None:
    values = np.array(list("".join(texts)), dtype="U1")
    lists = _Lists(values, np.cumsum([len(text) for text in texts], dtype=np.int64))
    pattern = re.compile(rf"(?=(.{{{length}}})\1{{{times}}})")

    found = {place for place, text in enumerate(texts) if pattern.search(text)}
    assert set(lists.repeating(length, times).tolist()) == found
