"""Beam and greedy search against the rules, written again without arrays, on random models."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.config import SearchConfig
from nmt_core.search.beam import beam_search, n_best
from nmt_core.search.greedy import greedy_search
from nmt_core.search.hypothesis import Hypothesis, length_penalty
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID

sources = st.lists(st.lists(st.integers(4, 8), max_size=4), min_size=1, max_size=5)
seeds = st.integers(0, 10_000)
grains = st.sampled_from([0.0, 0.5, 2.0])


def by_the_rules(stepper, source: Sequence[int], config: SearchConfig) -> list[Hypothesis]:
    """Search one sentence alone. A partial hypothesis is its sum and its ids, the best first."""
    partial: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[Hypothesis] = []
    limit, alpha = len(source) + config.max_length_offset, config.length_penalty
    for length in range(limit + 1):
        successors = []
        for rank, (total, ids) in enumerate(partial):
            log_probs = np.float32(stepper.log_probs((*source, EOS_ID), ids)).astype(float)
            tokens = (token for token in range(stepper.vocab_size) if token not in (PAD_ID, BOS_ID))
            successors += [(-(total + log_probs[token]), token, rank, ids) for token in tokens]
        successors.sort(key=lambda one: one[:3])
        for cost, token, _, ids in successors[: config.beam_size]:
            if token == EOS_ID:
                finished.append(Hypothesis(ids, -cost / length_penalty(length + 1, alpha)))
        if length == limit and not finished:
            return [Hypothesis(partial[0][1], partial[0][0] / length_penalty(length, alpha), cut=True)]
        others = [(-cost, (*ids, token)) for cost, token, _, ids in successors if token != EOS_ID]
        partial = others[: config.beam_size]
        finished.sort(key=lambda one: -one.score)
        worst_wanted = finished[config.n_best - 1].score if len(finished) >= config.n_best else -np.inf
        if len(finished) >= config.beam_size or worst_wanted >= partial[0][0] / length_penalty(limit + 1, alpha):
            break
    return finished[: config.n_best]


@settings(max_examples=150)
@given(
    sources,
    seeds,
    grains,
    st.tuples(st.integers(1, 6), st.integers(1, 6)).map(sorted),
    st.sampled_from([0.0, 0.6, 1.3]),
    st.integers(1, 5),
    st.integers(5, 12),
)
def test_a_beam_finds_what_the_rules_say_to_the_last_bit(
    by_chance,
    sources: list[list[int]],
    seed: int,
    grain: float,
    sizes: list[int],
    alpha: float,
    offset: int,
    vocab_size: int,
) -> None:
    stepper = by_chance(seed, vocab_size, grain)
    config = SearchConfig(n_best=sizes[0], beam_size=sizes[1], length_penalty=alpha, max_length_offset=offset)
    expected = [by_the_rules(stepper, source, config) for source in sources]
    assert n_best(stepper, sources, config) == expected
    assert beam_search(stepper, sources, config) == [found[0] for found in expected]


@settings(max_examples=150)
@given(sources, seeds, grains, st.sampled_from([0.0, 0.6, 1.3]), st.integers(1, 5))
def test_greedy_search_finds_what_a_beam_of_one_finds(
    by_chance, sources: list[list[int]], seed: int, grain: float, alpha: float, offset: int
) -> None:
    stepper = by_chance(seed, grain=grain)
    config = SearchConfig(beam_size=1, length_penalty=alpha, max_length_offset=offset)
    assert greedy_search(stepper, sources, config) == beam_search(stepper, sources, config)


def test_both_ways_to_stop_are_among_these(by_chance) -> None:
    config = SearchConfig(beam_size=2, max_length_offset=2)
    found = [beam_search(by_chance(seed), [[4], [5, 6]], config) for seed in range(20)]
    assert {one.cut for both in found for one in both} == {True, False}
