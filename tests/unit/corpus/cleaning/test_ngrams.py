"""The language model gives the probability of its formula, word by word, and its probabilities sum to 1."""

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.corpus.cleaning.ngrams import LanguageModel, Sentences, frequent

VOCABULARY = ["a", "b", "c"]
TEXTS = st.lists(st.lists(st.sampled_from([*VOCABULARY, "x", "y"]), max_size=5), min_size=1, max_size=12)
Gram = tuple[str, ...]


def series(texts: list[list[str]]) -> pl.Series:
    return pl.Series("words", texts, pl.List(pl.String))


def numbered(texts: list[list[str]], order: int) -> Sentences:
    return Sentences.of(series(texts), pl.Series("word", VOCABULARY), order)


class Plain:
    """Plain implementation with dictionaries."""

    def __init__(self, texts: list[list[str]], order: int) -> None:
        self.order, self.counts = order, [Counter[Gram]() for _ in range(order)]
        for text in texts:
            line = self.line(text)
            for place in range(order - 1, len(line)):
                for n in range(order):
                    self.counts[n][tuple(line[place - n : place + 1])] += 1

    def line(self, text: list[str]) -> list[str]:
        return ["<s>"] * (self.order - 1) + [word if word in VOCABULARY else "<unk>" for word in text] + ["</s>"]

    def probability(self, gram: Gram) -> float:
        if not gram:
            return 1 / (len(VOCABULARY) + 2)
        after = {other: count for other, count in self.counts[len(gram) - 1].items() if other[:-1] == gram[:-1]}
        lower = self.probability(gram[1:])
        if not after:
            return lower
        return (after.get(gram, 0) + len(after) * lower) / (sum(after.values()) + len(after))

    def cross_entropy(self, text: list[str]) -> float:
        line, n = self.line(text), self.order
        grams = [tuple(line[place - n + 1 : place + 1]) for place in range(n - 1, len(line))]
        return -sum(math.log(self.probability(gram)) for gram in grams) / len(grams)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@settings(max_examples=60)
@given(learnt=TEXTS, asked=TEXTS)
def test_it_is_interpolated_witten_bell(order: int, learnt: list[list[str]], asked: list[list[str]]) -> None:
    model = LanguageModel.learn(numbered(learnt, order), len(VOCABULARY) + 2)
    plain = Plain(learnt, order)
    found = model.cross_entropy(numbered(asked, order))
    assert found == pytest.approx([plain.cross_entropy(text) for text in asked])


@settings(max_examples=40)
@given(learnt=TEXTS, history=st.lists(st.sampled_from([*VOCABULARY, "<unk>", "<s>", "</s>"]), max_size=2))
def test_probabilities_after_a_history_add_up(learnt: list[list[str]], history: list[str]) -> None:
    plain = Plain(learnt, 3)
    words = [*VOCABULARY, "<unk>", "</s>"]
    assert sum(plain.probability((*history, word)) for word in words) == pytest.approx(1)


def test_a_model_is_its_table() -> None:
    texts = [["a", "b"], ["a", "x", "c"], []]
    model = LanguageModel.learn(numbered(texts, 3), 5)
    again = LanguageModel(model.grams, 5)
    asked = numbered([["a", "b", "c"], ["x"]], 3)
    assert np.array_equal(again.cross_entropy(asked), model.cross_entropy(asked))
    assert len(model.cross_entropy(numbered([], 3))) == 0


def test_frequent_words_come_often_enough() -> None:
    assert frequent([series([["b", "a", "b"], []]), series([["c", "a"]])], 2).to_list() == ["a", "b"]
