"""A search that requires terms: all hypotheses contain them, whole and apart, and no better translation does."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.config import SearchConfig
from nmt_core.models.transformer import Transformer
from nmt_core.search.beam import n_best
from nmt_core.search.hypothesis import Hypothesis, length_penalty
from nmt_core.search.onnx_step import STEP_FILE, WHOLE_STEP_FILE, OnnxStepper
from nmt_core.search.term_search import Required, search_with_terms
from nmt_core.search.torch_step import TorchStepper
from nmt_core.terms.pieces import Form, TermPieces
from nmt_core.tokenizer.tokenizer import EOS_ID, UNK_ID, Tokenizer

A, B, C, D = 4, 5, 6, 7
FREE: Any = SimpleNamespace(begin_V=np.zeros(100, np.int8), end_V=np.zeros(100, np.int8))
"""Pieces that are not parts of words, so that terms may be anywhere."""
QUICK = SearchConfig(beam_size=4, max_length_offset=8)

seeds = st.integers(0, 10_000)
terms = st.lists(
    st.lists(st.lists(st.integers(4, 7), min_size=1, max_size=3), min_size=1, max_size=2), min_size=1, max_size=3
)
sentences = st.lists(st.tuples(st.lists(st.integers(4, 8), max_size=4), terms), min_size=1, max_size=4)


def required(given: Sequence[Sequence[Sequence[int]]]) -> Required:
    return [tuple(Form(tuple(ids), 0, 0) for ids in ways) for ways in given]


def holds(ids: Sequence[int], given: Sequence[Sequence[Sequence[int]]]) -> bool:
    """Return True if the ids contain each term in one of its spellings, without overlap."""
    if not given:
        return True
    for ways, others in ((given[number], [*given[:number], *given[number + 1 :]]) for number in range(len(given))):
        for way in ways:
            for start in range(len(ids) - len(way) + 1):
                if list(ids[start : start + len(way)]) == list(way) and holds(ids[start + len(way) :], others):
                    return True
    return False


@settings(max_examples=15)
@given(seeds, sentences, st.integers(1, 3))
def test_every_hypothesis_has_all_terms(by_chance, seed: int, sentences: list[Any], most: int) -> None:
    config = QUICK.model_copy(update={"n_best": most, "max_length_offset": 10})
    sources, given = [source for source, _ in sentences], [required(own) for _, own in sentences]
    found = search_with_terms(by_chance(seed), sources, config, [], given, FREE)
    for (source, own), hypotheses in zip(sentences, found, strict=True):
        assert 0 < len(hypotheses) <= most
        assert all(holds(one.ids, own) and not one.cut for one in hypotheses)
        assert [one.score for one in hypotheses] == sorted((one.score for one in hypotheses), reverse=True)
        [alone] = search_with_terms(by_chance(seed), [source], config, [], [required(own)], FREE)
        assert [one.ids for one in alone] == [one.ids for one in hypotheses], "others in the batch change nothing"


@settings(max_examples=25)
@given(
    seeds,
    st.sampled_from(
        [[], [[[A]]], [[[A, B]]], [[[A, A]], [[B]]], [[[A]], [[A]]], [[[A, B], [B, B, A]]], [[[B, B], [B]], [[A]]]]
    ),
)
def test_a_beam_that_holds_everything_finds_the_best_of_all(by_chance, seed: int, given: list[Any]) -> None:
    config = SearchConfig(beam_size=64, max_length_factor=0, max_length_offset=4, length_penalty=0.6)
    stepper = by_chance(seed, vocab_size=6)
    source = [A, B]
    scores = {
        ids: score_of(stepper, source, ids, config.length_penalty)
        for length in range(5)
        for ids in product((UNK_ID, A, B), repeat=length)
        if holds(ids, given)
    }
    [hypotheses] = search_with_terms(stepper, [source], config, [], [required(given)], FREE)
    best = max(scores, key=scores.__getitem__)
    assert hypotheses[0].ids == best
    assert hypotheses[0].score == pytest.approx(scores[best], abs=1e-5)


def score_of(stepper: Any, source: list[int], ids: Sequence[int], alpha: float) -> float:
    total = sum(stepper.log_probs((*source, EOS_ID), tuple(ids[:n]))[token] for n, token in enumerate([*ids, EOS_ID]))
    return float(total / length_penalty(len(ids) + 1, alpha))


def test_without_terms_it_finds_what_a_beam_finds(by_chance) -> None:
    config = SearchConfig(beam_size=8, n_best=1, max_length_offset=6)
    sources = [[A], [B, C], [], [D, A, A]]
    for seed in range(20):
        [*free] = n_best(by_chance(seed), sources, config)
        found = search_with_terms(by_chance(seed), sources, config, [], [[]] * 4, FREE)
        # One that is cut has not ended, so here it is none.
        assert [own[0].ids for own, others in zip(found, free, strict=True) if own and not others[0].cut] == [
            others[0].ids for own, others in zip(found, free, strict=True) if own and not others[0].cut
        ]


def test_a_term_that_is_needed_twice_is_there_twice_and_a_shared_piece_counts_once(scripted) -> None:
    table = {(A,) * n: {A: 0.4, EOS_ID: 0.6} for n in range(6)}
    twice = required([[[A, A]], [[A, A]]])
    [[found]] = search_with_terms(scripted(table), [[B]], QUICK, [], [twice], FREE)
    assert found.ids == (A,) * 4


def test_words_are_whole(scripted) -> None:
    """`D` continues a word. So `A D` does not contain the word `A`, and `B A` contains it only after a space."""
    pieces: Any = SimpleNamespace(begin_V=np.zeros(8, np.int8), end_V=np.ones(8, np.int8))
    pieces.begin_V[D] = 1
    word = [(Form((A,), 0, 1),)]
    table = {(): {A: 0.9, B: 0.1}, (A,): {D: 0.9, EOS_ID: 0.1}, (A, D): {EOS_ID: 0.9, A: 0.1}}
    table |= {(A, D, A): {EOS_ID: 0.5, D: 0.5}, (B,): {A: 1.0}, (B, A): {D: 1.0}, (B, A, D): {EOS_ID: 1.0}}
    [[found]] = search_with_terms(scripted(table), [[B]], QUICK, [], [word], pieces)
    assert found.ids == (A,)
    pieces.end_V[:] = 0
    pieces.end_V[B] = 1
    glued = [(Form((D,), 1, 1),)]
    table = {(): {B: 0.9, C: 0.1}, (B,): {D: 1.0}, (B, D): {EOS_ID: 1.0}, (C,): {D: 0.5, C: 0.5}, (C, D): {EOS_ID: 1.0}}
    [[found]] = search_with_terms(scripted(table), [[B]], QUICK, [], [glued], pieces)
    assert found.ids == (C, D)


def test_a_prefix_comes_first_and_may_hold_a_term(by_chance, scripted) -> None:
    for seed in range(10):
        given = [required([[[A, B]]]), required([[[C]]])]
        found = search_with_terms(by_chance(seed), [[A], [B]], QUICK, [[D, A, B], []], given, FREE)
        assert found[0][0].ids[:3] == (D, A, B)
        assert C in found[1][0].ids
    table = {(A,): {EOS_ID: 0.9, B: 0.1}}
    [[found]] = search_with_terms(scripted(table), [[B]], QUICK, [[A]], [required([[[A]]])], FREE)
    assert found.ids == (A,) and found.score == pytest.approx(np.log(0.9))


def test_no_hypothesis_is_better_than_one_without_a_term(scripted) -> None:
    [found] = search_with_terms(scripted({(): {B: 1.0}, (B,): {B: 1.0}}), [[B]], QUICK, [], [required([[[A]]])], FREE)
    assert found == []
    assert search_with_terms(scripted({}), [], QUICK, [], [], FREE) == []


def test_the_rules_of_a_search_hold(by_chance) -> None:
    rules = {"min_length": 6, "allow_unknown": False, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2}
    config = QUICK.model_copy(update={**rules, "max_length_offset": 12})
    for seed in range(10):
        [[found]] = search_with_terms(by_chance(seed), [[A, B]], config, [], [required([[[A, B]]])], FREE)
        assert holds(found.ids, [[[A, B]]]) and len(found.ids) >= 6 and UNK_ID not in found.ids
        pairs = list(zip(found.ids, found.ids[1:], strict=False))
        assert len(set(pairs)) == len(pairs)


@pytest.fixture(scope="module")
def backends(tiny_model: Transformer, int8_bundle: Path) -> dict[str, Any]:
    return {
        "torch": TorchStepper(tiny_model),
        "fp32": OnnxStepper(int8_bundle / "fp32", 100, step=WHOLE_STEP_FILE),
        "fp32, ranked": OnnxStepper(int8_bundle / "fp32", 100, step=STEP_FILE),
        "int8": OnnxStepper(int8_bundle / "int8", 100, step=WHOLE_STEP_FILE),
    }


def test_all_backends_find_the_same(
    reference, tiny_model: Transformer, backends: dict[str, Any], tiny_tokenizer: Tokenizer
) -> None:
    generator = np.random.default_rng(3)
    sources = [generator.integers(4, 100, size).tolist() for size in generator.integers(1, 10, 8)]
    pieces = TermPieces(tiny_tokenizer)
    words = ["house", "small dog", "학생", "the"]
    given = [[pieces.forms((word,)) for word in words[: 1 + number % 3]] for number in range(len(sources))]
    config = SearchConfig(beam_size=5, n_best=2, max_length_offset=10)
    expected = search_with_terms(reference(tiny_model), sources, config, [], given, pieces)
    texts = tiny_tokenizer.decode([hypotheses[0].ids for hypotheses in expected if hypotheses])
    assert len(texts) >= 6 and all("house" in text for text in texts)
    for name, stepper in backends.items():
        found = search_with_terms(stepper, sources, config, [], given, pieces)
        if name == "int8":  # other weights
            assert [bool(hypotheses) for hypotheses in found].count(True) >= 6
            assert all("house" in text for text in tiny_tokenizer.decode([own[0].ids for own in found if own]))
        else:
            assert_same(found, expected)


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[one.ids for one in own] for own in found] == [[one.ids for one in own] for own in expected]
    for own, others in zip(found, expected, strict=True):
        assert [one.score for one in own] == pytest.approx([one.score for one in others], abs=1e-4)
