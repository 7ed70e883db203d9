"""Constraints of a translation: its prefix, its minimum and maximum length, and the pieces that it must not contain."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError
from nmt_core.search.beam import n_best
from nmt_core.search.constraints import check_positions, limit
from nmt_core.search.methods import search_batch
from nmt_core.tokenizer.tokenizer import EOS_ID, UNK_ID

A, B, C = 4, 5, 6
seeds = st.integers(0, 10_000)
sentences = st.lists(
    st.tuples(st.lists(st.integers(4, 8), max_size=4), st.lists(st.integers(4, 8), max_size=4)), min_size=1, max_size=5
)
METHODS = {
    "greedy": SearchConfig(beam_size=1, max_length_offset=4),
    "beam": SearchConfig(beam_size=3, n_best=3, max_length_offset=4),
    "sample": SearchConfig(method="sample", n_best=2, max_length_offset=4),
}


@settings(max_examples=120)
@given(seeds, sentences, st.sampled_from(["greedy", "beam"]))
def test_a_prefix_is_a_search_that_begins_after_it(
    by_chance, seed: int, sentences: list[tuple[list[int], list[int]]], method: str
) -> None:
    """Sentences with prefixes of all lengths are searched together, as if each model had read the prefix before."""
    stepper, config = by_chance(seed), METHODS[method]
    found = search_batch(stepper, [source for source, _ in sentences], config, [prefix for _, prefix in sentences])
    for (source, prefix), hypotheses in zip(sentences, found, strict=True):
        after = by_chance(seed)
        after.log_probs = lambda given, target, prefix=prefix: stepper.log_probs(given, (*prefix, *target))
        [expected] = search_batch(after, [source], config)
        assert [(one.ids, one.score, one.cut) for one in hypotheses] == [
            ((*prefix, *one.ids), one.score, one.cut) for one in expected
        ]


@settings(max_examples=120)
@given(seeds, sentences, st.sampled_from(["greedy", "sample"]), st.data())
def test_its_own_beginning_changes_nothing(
    by_chance, seed: int, sentences: list[tuple[list[int], list[int]]], method: str, data: st.DataObject
) -> None:
    stepper, config, sources = by_chance(seed), METHODS[method], [source for source, _ in sentences]
    config = config.model_copy(update={"n_best": 1})
    free = search_batch(stepper, sources, config)
    own = [one.ids[: data.draw(st.integers(0, len(one.ids)))] for [one] in free]
    forced = search_batch(stepper, sources, config, own)
    for [one], [other] in zip(forced, free, strict=True):
        assert other.cut or not one.cut
        assert one.ids[: len(other.ids)] == other.ids, (
            "a translation that was cut may grow by as many tokens as were given"
        )
        assert other.cut or one.ids == other.ids


@settings(max_examples=60)
@given(seeds, st.lists(st.integers(4, 5), max_size=1), st.data())
def test_its_own_beginning_changes_nothing_in_a_beam_that_holds_everything(
    by_chance, seed: int, source: list[int], data: st.DataObject
) -> None:
    config = SearchConfig(beam_size=64, max_length_offset=2, length_penalty=0.0)
    stepper = by_chance(seed, vocab_size=6)
    [[free]] = search_batch(stepper, [source], config)
    own = free.ids[: data.draw(st.integers(0, len(free.ids)))]
    shorter = config.model_copy(update={"max_length_offset": config.max_length_offset - len(own)})
    [[forced]] = search_batch(stepper, [source], shorter, [own])
    assert (forced.ids, forced.cut) == (free.ids, free.cut)


def test_a_forced_token_may_be_impossible_and_counts_nothing(scripted) -> None:
    table = {(): {A: 1.0}, (C,): {B: 0.5, A: 0.4}, (C, B): {EOS_ID: 0.5}}
    config = SearchConfig(beam_size=2, length_penalty=1.0, max_length_offset=3)
    [[found]] = search_batch(scripted(table), [[A]], config, [[C]])
    assert found.ids == (C, B) and found.score == pytest.approx(2 * math.log(0.5) / (7 / 6))


@pytest.mark.parametrize("method", METHODS)
def test_a_prefix_has_room_of_its_own_as_far_as_there_are_positions(by_chance, method: str) -> None:
    few = METHODS[method].model_copy(update={"max_source_tokens": 8})
    for config, prefix, most in ((METHODS[method], 40, 45), (few, 10, 12), (few, 40, 12)):
        assert most < config.most_positions
        found = search_batch(by_chance(1), [[A], [B, B]], config, [[C] * prefix, [B]])
        assert {one.ids[:prefix] for one in found[0]} == {(C,) * min(prefix, most)}
        assert max(len(one.ids) for one in found[0]) <= most
        assert {one.ids[:1] for one in found[1]} == {(B,)}


def test_while_all_are_forced_a_sentence_has_one_row(by_chance) -> None:
    stepper, rows = by_chance(3), []
    inner = stepper.log_probs
    stepper.log_probs = lambda source, target: rows.append(len(target)) or inner(source, target)
    n_best(stepper, [[A, B]], SearchConfig(beam_size=4, max_length_offset=5), [[A, B, C]])
    assert [rows.count(length) for length in range(5)] == [1, 1, 1, 1, 4]


@settings(max_examples=60)
@given(seeds, st.sampled_from(list(METHODS)), st.integers(0, 4))
def test_no_translation_is_shorter_than_it_must_be(by_chance, seed: int, method: str, least: int) -> None:
    stepper = by_chance(seed)
    config = METHODS[method].model_copy(update={"min_length": least})
    for found in search_batch(stepper, [[A], [B, C], []], config):
        assert min(len(one.ids) for one in found) >= least


def test_the_end_mark_is_passed_over_and_not_what_comes_after_it(scripted) -> None:
    table = {(): {EOS_ID: 0.6, B: 0.3, A: 0.1}, (B,): {EOS_ID: 0.5, A: 0.5}}
    for config in METHODS.values():
        config = config.model_copy(update={"min_length": 1, "top_k": 1, "n_best": 1, "beam_size": 1})
        [[found]] = search_batch(scripted(table), [[A]], config)
        assert found.ids == (B,)


@settings(max_examples=100)
@given(seeds, sentences, st.sampled_from(list(METHODS)), st.integers(0, 3))
def test_without_unknown_words_it_is_as_if_they_were_impossible(
    by_chance, seed: int, sentences: list[tuple[list[int], list[int]]], method: str, least: int
) -> None:
    stepper, without = by_chance(seed), by_chance(seed)

    def impossible(source: tuple[int, ...], target: tuple[int, ...]) -> np.ndarray:
        log_probs = np.array(stepper.log_probs(source, target))
        log_probs[UNK_ID] = -np.inf
        return log_probs

    without.log_probs = impossible
    config = METHODS[method].model_copy(update={"min_length": least})
    sources = [source for source, _ in sentences]
    found = search_batch(stepper, sources, config.model_copy(update={"allow_unknown": False}))
    expected = search_batch(without, sources, config)
    assert not any(UNK_ID in one.ids for hypotheses in found for one in hypotheses)
    assert [[(one.ids, one.score, one.cut) for one in group] for group in found] == [
        [(one.ids, one.score, one.cut) for one in group] for group in expected
    ]


@pytest.mark.parametrize(("factor", "offset", "tokens", "most"), [(1.0, 50, 7, 57), (0.0, 5, 7, 5), (1.5, 1, 3, 5)])
def test_the_greatest_length(factor: float, offset: int, tokens: int, most: int, by_chance) -> None:
    config = SearchConfig(max_length_factor=factor, max_length_offset=offset)
    assert limit(tokens, config) == most
    endless = by_chance(1)
    endless.log_probs = lambda source, target: np.float32([-9, -9, -9, -9, 0, -1, -2, -3, -4])
    for method in METHODS.values():
        update = {"max_length_factor": factor, "max_length_offset": offset, "top_k": 1, "n_best": 1}
        [[found]] = search_batch(endless, [[A] * tokens], method.model_copy(update=update))
        assert found.cut and len(found.ids) == most


def test_positions_match_the_longer_side() -> None:
    check_positions(SearchConfig(max_source_tokens=100, max_length_offset=9), 110, "here")
    short = SearchConfig(max_source_tokens=100, max_length_factor=0.5, max_length_offset=9)
    check_positions(short, 101, "here")
    with pytest.raises(ConfigError, match=r"need 101 positions, .*here has 100"):
        check_positions(short, 100, "here")
    with pytest.raises(ConfigError, match=r"max_length_factor=2 and .*offset=9 need 210 positions, .*here has 209"):
        check_positions(SearchConfig(max_source_tokens=100, max_length_factor=2, max_length_offset=9), 209, "here")
