"""The rules of the search, on tables that a person can follow, and against every possible target."""

import itertools
import math

import numpy as np
import pytest
import torch

from nmt_core.config import ModelConfig, SearchConfig
from nmt_core.models.transformer import Transformer
from nmt_core.search.beam import beam_search, n_best
from nmt_core.search.hypothesis import Hypothesis, length_penalty
from nmt_core.tokenizer.tokenizer import EOS_ID

A, B, C = 4, 5, 6


def search(beam_size: int, length_penalty: float = 0.0, offset: int = 5, n_best: int = 1) -> SearchConfig:
    return SearchConfig(beam_size=beam_size, n_best=n_best, length_penalty=length_penalty, max_length_offset=offset)


def test_length_penalty_golden() -> None:
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(19, 0.5) == 2.0
    assert length_penalty(20, 0.6) == pytest.approx(2.354362, abs=1e-6)
    assert length_penalty(123, 0.0) == 1.0


def test_the_end_mark_counts_in_the_score_and_in_the_length(scripted) -> None:
    stepper = scripted({(): {A: 0.5}, (A,): {B: 0.5}, (A, B): {EOS_ID: 0.5}})
    [found] = beam_search(stepper, [[A]], search(1, length_penalty=1.0))
    assert found == Hypothesis((A, B), pytest.approx(3 * math.log(0.5) / (8 / 6)), cut=False)


def test_greedy_takes_the_likeliest_token_and_a_beam_finds_the_likelier_sentence(scripted) -> None:
    table = {
        (): {A: 0.6, B: 0.4},
        (A,): {EOS_ID: 0.3, C: 0.3, B: 0.4},
        (A, B): {EOS_ID: 0.5, C: 0.5},
        (B,): {EOS_ID: 1.0},
    }
    assert beam_search(scripted(table), [[A]], search(1))[0].ids[:2] == (A, B)
    assert beam_search(scripted(table), [[A]], search(2))[0].ids == (B,)


def test_the_first_step_is_not_expanded_into_equal_beams(scripted) -> None:
    table = {(): {A: 0.5, B: 0.3, C: 0.2}, (A,): {EOS_ID: 1}, (B,): {EOS_ID: 1}, (C,): {EOS_ID: 1}}
    [found] = n_best(scripted(table), [[A]], search(3, n_best=3))
    assert [hypothesis.ids for hypothesis in found] == [(A,), (B,), (C,)]
    assert [math.exp(hypothesis.score) for hypothesis in found] == pytest.approx([0.5, 0.3, 0.2])


def test_a_target_without_end_is_cut_at_source_tokens_plus_offset(scripted) -> None:
    table = {(A,) * length: {A: 0.9, EOS_ID: 0.0} for length in range(20)}
    [found] = beam_search(scripted(table), [[B, B]], search(2, offset=3))
    assert found == Hypothesis((A,) * 5, pytest.approx(5 * math.log(0.9)), cut=True)


def test_a_target_of_the_greatest_length_may_still_end(scripted) -> None:
    table = {(A,) * length: {A: 0.99, EOS_ID: 0.01} for length in range(3)} | {(A, A, A): {EOS_ID: 0.6, A: 0.4}}
    [found] = beam_search(scripted(table), [[B]], search(1, offset=2))
    assert found == Hypothesis((A,) * 3, pytest.approx(3 * math.log(0.99) + math.log(0.6)), cut=False)


def test_an_end_that_ranks_too_low_at_the_greatest_length_is_no_end(scripted) -> None:
    table = {(A,) * length: {A: 0.99, EOS_ID: 0.01} for length in range(20)}
    [found] = beam_search(scripted(table), [[B]], search(1, offset=2))
    assert found == Hypothesis((A,) * 3, pytest.approx(3 * math.log(0.99)), cut=True)


def test_a_hypothesis_that_ended_comes_before_a_likelier_one_that_was_cut(scripted) -> None:
    table = {(): {A: 0.9, EOS_ID: 0.1}, (A,): {A: 1.0}, (A, A): {A: 1.0}, (A, A, A): {A: 1.0}}
    [found] = beam_search(scripted(table), [[B]], search(2, offset=1))
    assert found == Hypothesis((), pytest.approx(math.log(0.1)), cut=False)


def test_search_stops_when_the_best_cannot_be_beaten(scripted) -> None:
    table = {(): {EOS_ID: 0.9, A: 0.1}, **{(A,) * length: {A: 1.0} for length in range(1, 60)}}
    stepper = scripted(table)
    assert beam_search(stepper, [[A]], search(4, offset=50))[0].ids == ()
    assert len(stepper.batch_sizes) == 1


def test_search_continues_until_no_hypothesis_can_enter_the_results(scripted) -> None:
    table = {(): {EOS_ID: 0.9, A: 0.1}, (A,): {EOS_ID: 0.5, A: 0.5}, (A, A): {EOS_ID: 1.0}}
    stepper = scripted(table)
    [found] = n_best(stepper, [[A]], search(4, offset=50, n_best=2))
    assert [one.ids for one in found] == [(), (A,)]
    assert len(stepper.batch_sizes) == 2


def test_search_continues_while_a_longer_one_may_still_win(scripted) -> None:
    table = {(): {EOS_ID: 0.4, A: 0.35}, (A,): {A: 0.99}, (A, A): {A: 0.99}, (A, A, A): {EOS_ID: 1.0}}
    assert beam_search(scripted(table), [[A]], search(4, length_penalty=0.0))[0].ids == ()
    assert beam_search(scripted(table), [[A]], search(4, length_penalty=1.0))[0].ids == (A, A, A)


def test_a_longer_one_may_win_at_the_greatest_length_and_not_before(scripted) -> None:
    """By length 3, the end mark counted, -1.25 is divided by 8/6: better than -1. By 7/6 it would be worse."""
    table = {(): {EOS_ID: math.exp(-1), A: math.exp(-1.25)}, (A,): {A: 1.0}, (A, A): {EOS_ID: 1.0}}
    [found] = beam_search(scripted(table), [[A]], search(2, length_penalty=1.0, offset=1))
    assert found == Hypothesis((A, A), pytest.approx(-1.25 / (8 / 6)))


def test_equal_sums_are_ordered_by_id_then_by_rank(scripted) -> None:
    table = {(): {C: 0.25, B: 0.25, A: 0.25}, **{(x,): {EOS_ID: 1.0} for x in (A, B, C)}}
    assert beam_search(scripted(table), [[A]], search(1))[0].ids == (A,)
    assert [hypothesis.ids for hypothesis in n_best(scripted(table), [[A]], search(3, n_best=3))[0]] == [
        (A,),
        (B,),
        (C,),
    ]


def test_finished_sentences_leave_the_batch(scripted) -> None:
    stepper = scripted({(): {}})

    def log_probs(source: tuple[int, ...], target: tuple[int, ...]) -> np.ndarray:
        probabilities = np.full(8, 1e-6)
        probabilities[EOS_ID if len(target) == len(source) - 1 else A] = 1.0
        return np.log(probabilities)

    stepper.log_probs = log_probs
    found = beam_search(stepper, [[B] * 3, [B], [B] * 5, [B]], search(1))
    assert [len(hypothesis.ids) for hypothesis in found] == [3, 1, 5, 1]
    assert stepper.batch_sizes == [4, 4, 2, 2, 1, 1]


def test_no_sources_and_empty_sources(scripted) -> None:
    table = {(): {A: 0.5, EOS_ID: 0.5}, (A,): {EOS_ID: 1.0}}
    assert beam_search(scripted(table), [], search(4)) == []
    assert len(beam_search(scripted(table), [[]], search(4))) == 1


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all_targets(reference, alpha: float, seed: int) -> None:
    """Three tokens may follow, at most three times: 40 targets, fewer than the beam holds."""
    torch.manual_seed(seed)
    config = ModelConfig(d_model=16, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1, tied_embeddings="none")
    model = Transformer(config, vocab_size=6, max_positions=16).eval()
    model.output.weight.data *= 3
    stepper, source = reference(model), [4, 5]
    scores = {}
    for length in range(4):
        for target in itertools.product((1, 4, 5), repeat=length):
            steps = [*target, EOS_ID]
            total = sum(
                float(stepper.log_probs((*source, EOS_ID), target[:place])[token]) for place, token in enumerate(steps)
            )
            scores[target] = total / ((5 + len(steps)) / 6) ** alpha
    best = max(scores, key=scores.__getitem__)
    [found] = beam_search(stepper, [source], search(64, alpha, offset=1))
    assert found == Hypothesis(best, pytest.approx(scores[best], abs=1e-5), cut=False)
