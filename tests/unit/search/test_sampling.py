"""Samples follow the model and the options, and do not depend on the other sentences of a batch."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nmt_core.config import SearchConfig
from nmt_core.search.denormals import denormals_as_zero
from nmt_core.search.greedy import greedy_search
from nmt_core.search.sampling import drawn, random_numbers, sample
from nmt_core.tokenizer.tokenizer import EOS_ID

A, B, C, D = 4, 5, 6, 7
FIRST = {A: 0.4, B: 0.3, C: 0.2, D: 0.06, EOS_ID: 0.04}


class Ending(dict):
    """Table in which every target that is not named ends."""

    def get(self, target: object, default: object = None) -> object:
        return super().get(target, {EOS_ID: 1.0})


TABLE = Ending({(): FIRST})
SAMPLES = 4_000


def sampling(**options: float) -> SearchConfig:
    return SearchConfig.model_validate({"method": "sample", "max_length_offset": 1, "length_penalty": 0.0} | options)


def counts(stepper, config: SearchConfig) -> dict[tuple[int, ...], int]:
    """Return how often each target is drawn, among samples of many sources that the table treats alike."""
    sources = [[4 + int(digit) for digit in np.base_repr(place, 5)] for place in range(SAMPLES)]
    found: dict[tuple[int, ...], int] = {}
    for [one] in sample(stepper, sources, config):
        found[one.ids[:1]] = found.get(one.ids[:1], 0) + 1
    return found


def chi_square(found: dict[tuple[int, ...], int], expected: dict[tuple[int, ...], float]) -> float:
    assert found.keys() <= expected.keys(), "something that has no probability was drawn"
    total = sum(expected.values())
    return sum(
        (found.get(ids, 0) - SAMPLES * probability / total) ** 2 / (SAMPLES * probability / total)
        for ids, probability in expected.items()
    )


BENT = {
    "whole": ({}, FIRST),
    "hot": ({"temperature": 2.0}, {token: math.sqrt(probability) for token, probability in FIRST.items()}),
    "cold": ({"temperature": 0.5}, {token: probability**2 for token, probability in FIRST.items()}),
    "top_k": ({"top_k": 2}, {A: 0.4, B: 0.3}),
    "top_p": ({"top_p": 0.75}, {A: 0.4, B: 0.3, C: 0.2}),
    "top_p of top_k": ({"top_k": 3, "top_p": 0.7}, {A: 0.4, B: 0.3}),
    "top_p when hot": ({"temperature": 2.0, "top_p": 0.55}, {A: math.sqrt(0.4), B: math.sqrt(0.3)}),
}


@pytest.mark.parametrize("case", BENT)
def test_tokens_are_drawn_as_often_as_they_should(scripted, case: str) -> None:
    options, probabilities = BENT[case]
    expected = {() if token == EOS_ID else (token,): p for token, p in probabilities.items()}
    # 18.5: the chi-square that chance exceeds once in 1,000 times, with as many degrees of freedom as there are tokens.
    assert chi_square(counts(scripted(TABLE), sampling(**options)), expected) < 18.5
    others = dict.fromkeys(expected, 1.0)
    assert len(others) < 3 or chi_square(counts(scripted(TABLE), sampling(**options)), others) > 18.5, (
        "it tells them apart"
    )


def test_the_least_probable_token_that_crosses_top_p_stays() -> None:
    log_probs = np.log(np.float32([[0.5, 0.25, 0.125, 0.125]]))
    ids = np.array([[9, 7, 8, 6]])  # of the last two, which are as likely, the one with the smaller id is the first
    for top_p, drawable in ((0.5, {9}), (0.500001, {9, 7}), (0.75, {9, 7}), (0.76, {9, 7, 6}), (1.0, {9, 7, 6, 8})):
        config = sampling(top_p=top_p)
        found = {int(ids[0, drawn(log_probs, ids, np.array([u]), config)[0, 0]]) for u in np.linspace(0, 0.9999, 400)}
        assert found == drawable


def test_no_token_stays_once_top_p_is_reached() -> None:
    alike, ids = np.zeros((1, 4), dtype=np.float32), np.array([[4, 5, 6, 7]])
    for top_p, most in ((0.25, 1), (0.5, 2), (0.75, 3)):
        config = sampling(top_p=top_p)
        assert {int(drawn(alike, ids, np.array([u]), config)[0, 0]) for u in np.linspace(0, 0.99, 40)} == {*range(most)}


@settings(max_examples=100)
@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([1.0, 0.7]))
def test_candidates_stand_side_by_side_in_the_order_of_their_ids(seed: int, candidates: int, top_p: float) -> None:
    """The candidates are some of the ids or all, different in each row.

    Padding with <pad>, which is impossible, fills a row.
    """
    chance = np.random.default_rng(seed)
    log_probs = -np.sort(chance.exponential(2.0, (3, candidates)).astype(np.float32), axis=1)
    ids = np.stack([1 + chance.permutation(12)[:candidates] for _ in range(3)])
    log_probs, ids = (np.pad(x, ((0, 0), (0, 2)), constant_values=fill) for x, fill in ((log_probs, -np.inf), (ids, 0)))
    numbers, config = chance.random(3), sampling(top_p=top_p)
    found = drawn(log_probs, ids, numbers, config)
    for row, column in enumerate(found[:, 0]):
        weights = np.exp(log_probs[row] - log_probs[row, 0])
        weights[np.cumsum(weights, dtype=np.float64) - weights >= top_p * weights.sum(dtype=np.float64)] = 0
        order = np.argsort(ids[row], kind="stable")
        up_to = np.cumsum(weights[order], dtype=np.float64)
        assert column == order[np.searchsorted(up_to, numbers[row] * up_to[-1], side="right")]


@pytest.mark.parametrize("temperature", [0.0, 1e-39, 9e-7, 101.0])
def test_a_temperature_that_leaves_no_sound_weights_is_refused(temperature: float) -> None:
    with pytest.raises(ValidationError, match=r"temperature\n +Input should be (greater|less) than or equal to"):
        sampling(temperature=temperature)


def test_at_the_least_temperature_weights_are_sound() -> None:
    """Weights are calculated as a translator does: tiny probabilities are zero."""
    log_probs, ids = np.float32([[-1e-3, -1e-3 - 1e-30, -20.0, -np.inf]]), np.array([[7, 5, 6, 0]])
    with denormals_as_zero():
        found = drawn(log_probs, ids, np.array([0.9]), sampling(temperature=1e-6))
    assert ids[0, found[0, 0]] == 7


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_rounding_that_swaps_neighbours_swaps_no_tokens(top_p: float) -> None:
    one, other = (np.float32([[-1.0, -1.0 - gap, -2.0]]) for gap in (0.0, 1e-6))
    for number in np.linspace(0.001, 0.999, 100):
        random, config = np.array([number]), sampling(top_p=top_p)
        before = np.array([[9, 4, 6]])[0, drawn(one, np.array([[9, 4, 6]]), random, config)]
        assert before == np.array([[4, 9, 6]])[0, drawn(other, np.array([[4, 9, 6]]), random, config)]


@settings(max_examples=100)
@given(st.integers(0, 10_000), st.lists(st.lists(st.integers(4, 8), max_size=4), min_size=1, max_size=4))
def test_the_colder_the_greedier(by_chance, seed: int, sources: list[list[int]]) -> None:
    stepper = by_chance(seed)
    expected = greedy_search(stepper, sources, SearchConfig(beam_size=1, max_length_offset=4))
    for options in ({"temperature": 1e-6}, {"top_k": 1}, {"top_p": 1e-6}):
        config = sampling(max_length_offset=4, length_penalty=0.6, **options)
        assert [one for [one] in sample(stepper, sources, config)] == expected


@settings(max_examples=100)
@given(st.integers(0, 10_000), st.lists(st.lists(st.integers(4, 8), max_size=6), min_size=2, max_size=6), st.randoms())
def test_company_and_order_and_the_number_of_samples_change_nothing(
    by_chance, seed: int, sources: list[list[int]], chance
) -> None:
    stepper = by_chance(seed)
    config = sampling(n_best=3, max_length_offset=4, seed=seed)
    expected = {tuple(source): sample(stepper, [source], config)[0] for source in sources}
    chance.shuffle(sources)
    assert sample(stepper, sources, config) == [expected[tuple(source)] for source in sources]
    fewer = config.model_copy(update={"n_best": 1})
    assert sample(stepper, sources, fewer) == [expected[tuple(source)][:1] for source in sources]


def test_seeds_samples_and_sources_are_worlds_apart(by_chance) -> None:
    stepper, config = by_chance(1), sampling(n_best=8, max_length_offset=20, min_length=1)
    [many] = sample(stepper, [[A, B]], config)
    assert len({one.ids for one in many}) > 4
    [others] = sample(stepper, [[A, B]], config.model_copy(update={"seed": 2}))
    assert {one.ids for one in others} != {one.ids for one in many}


def test_random_numbers_golden() -> None:
    """A job that is resumed years later draws the same numbers."""
    found = random_numbers([[4, 5], []], sampling(seed=7, n_best=2), 3)
    assert found.shape == (2, 2, 3)
    assert found.ravel()[:4].round(12).tolist() == [0.696148815425, 0.601009998085, 0.775658396545, 0.506511397513]
    assert found.min() >= 0 and found.max() < 1


def test_a_score_comes_from_the_model_and_not_from_the_changed_distribution(scripted) -> None:
    [[found]] = sample(scripted(Ending({(): {A: 0.6, B: 0.4}})), [[A]], sampling(top_k=1, temperature=3.0))
    assert found.ids == (A,) and found.score == pytest.approx(math.log(0.6)) and not found.cut


def test_a_sample_without_an_end_is_cut(scripted) -> None:
    table = {(A,) * length: {A: 0.5, B: 0.5} for length in range(9)} | {(B,): {B: 1.0}, (B, B): {B: 1.0}}
    [[found]] = sample(scripted(table), [[A]], sampling(top_k=1, max_length_offset=2))
    assert found.cut and found.ids == (A,) * 3 and found.score == pytest.approx(3 * math.log(0.5))
