"""Minimum Bayes risk chooses what its definition says, computed by sacreBLEU one pair at a time."""

import math

import numpy as np
import pytest
from sacrebleu.metrics import CHRF

from nmt_core.search.minimum_bayes_risk import ranked

CHRF_OF_SENTENCE = CHRF()


def by_definition(texts: list[str], weights: list[float]) -> list[float]:
    """Expected chrF of each text."""
    return [
        sum(w * CHRF_OF_SENTENCE.sentence_score(own, [other]).score for w, other in zip(weights, texts, strict=True))
        for own in texts
    ]


def some_texts(seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    words = ["the", "cat", "sees", "a", "dog", "and", "house", "big"]
    return [" ".join(generator.choice(words, generator.integers(1, 9))) for _ in range(12)]


@pytest.mark.parametrize("seed", range(5))
def test_samples_are_ranked_by_their_mean_chrf_against_all(seed: int) -> None:
    texts = some_texts(seed)
    texts += texts[:3]  # what is drawn twice counts twice
    expected = by_definition(texts, [1 / len(texts)] * len(texts))
    order = ranked(texts)
    assert sorted(order) == sorted({texts.index(text) for text in texts}), "each text once, at its first place"
    assert [expected[place] for place in order] == sorted((expected[place] for place in order), reverse=True)


@pytest.mark.parametrize("seed", range(5))
def test_candidates_of_a_beam_weigh_by_their_probability(seed: int) -> None:
    texts = some_texts(seed)
    log_probabilities = [-float(number) / 2 for number in np.random.default_rng(seed).permutation(12)]
    total = sum(map(math.exp, log_probabilities))
    expected = by_definition(texts, [math.exp(one) / total for one in log_probabilities])
    assert ranked(texts, log_probabilities)[0] == int(np.argmax(expected))
    certain = [0.0 if place == 7 else -1e3 for place in range(12)]
    assert ranked(texts, certain)[0] == 7


def test_consensus_beats_the_most_probable_outlier() -> None:
    texts = ["it rains", "the cat sees a dog", "the cat sees the dog", "a cat sees a dog"]
    assert ranked(texts)[0] != 0
    assert ranked(texts, [-1.0, -1.5, -1.5, -1.5])[0] != 0


def test_one_candidate_and_empty_ones() -> None:
    assert ranked(["a"]) == [0]
    assert ranked(["", ""]) == [0]
    assert ranked(["b", "a"], [math.nan, -1.0]) == [0, 1], "without scores all weigh the same, and the first one stays"
