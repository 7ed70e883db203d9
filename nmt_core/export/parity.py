"""Check that ONNX Runtime computes what PyTorch computes, before anything uses an export. Imports no torch.

Letters in names of arrays: R rows, C candidates, K beams of a sentence.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nmt_core.config import ExportConfig, SearchConfig
from nmt_core.errors import StageError
from nmt_core.search.beam import BeamStep, n_best
from nmt_core.search.greedy import greedy_search
from nmt_core.search.hypothesis import Hypothesis, Sums
from nmt_core.search.step import Decoding, Floats, Ints, Stepper

_BATCH_SENTENCES = 32
_WIDEST_TIE = 1e-2
"""Largest tie in nats. A larger tolerance lets log-probabilities differ, but not translations."""
_LIKE_ROUNDING = 10
"""Largest difference of ONNX Runtime from float64, as a multiple of PyTorch's own in float32, that rounding explains.

Both add up in another order. Faults are larger by orders of magnitude."""


@dataclass(frozen=True)
class Parity:
    """Agreement of two steppers."""

    sentences: int
    identical: int
    """Number of sentences with the same beams in both, except for ties. See `compare`."""
    max_difference: float
    """Largest difference of log-probabilities in nats, over every candidate of every step."""


def check_parity(
    reference: Stepper,
    exported: Stepper,
    sources: Sequence[Sequence[int]],
    config: ExportConfig,
    precise: Callable[[], Stepper],
) -> Parity:
    """Compare two steppers, and refuse a difference.

    Args:
        reference: the stepper whose results are right.
        exported: the stepper to check.
        sources: ids of the sentences to translate.
        config: beam size and tolerance.
        precise: makes the stepper of the reference in float64, which tells rounding from a fault.

    Raises:
        StageError: a log-probability differs by more than `parity_tolerance`, or any beam differs other than by a tie.
    """
    search = SearchConfig(beam_size=config.parity_beam_size, n_best=config.parity_beam_size)
    parity = compare(reference, exported, sources, search, min(config.parity_tolerance, _WIDEST_TIE))
    if not parity.max_difference <= config.parity_tolerance:  # not(<=) refuses NaN as well
        raise StageError(
            f"export: log-probabilities of ONNX Runtime and PyTorch differ by up to {parity.max_difference:.2e} nats, "
            f"more than export.parity_tolerance={config.parity_tolerance:.0e}. "
            + _cause(parity, reference, exported, sources, search, precise())
        )
    if parity.identical < parity.sentences:
        raise StageError(
            f"export: {parity.sentences - parity.identical} of {parity.sentences} held-out sentences get another "
            f"translation from ONNX Runtime than from PyTorch (beam {config.parity_beam_size}), although all "
            f"log-probabilities of both searches agree within {parity.max_difference:.2e} nats. Where the searches "
            "diverge, hypotheses are nearly tied, and differences add up over a sentence: set another "
            "export.parity_beam_size or export.parity_sentences"
        )
    return parity


def _cause(
    parity: Parity,
    reference: Stepper,
    exported: Stepper,
    sources: Sequence[Sequence[int]],
    search: SearchConfig,
    precise: Stepper,
) -> str:
    """Return what makes two steppers differ, by their differences from float64, and what to do."""
    ours, theirs = (compare(precise, one, sources, search).max_difference for one in (reference, exported))
    measured = f"From float64, PyTorch differs by up to {ours:.1e} and ONNX Runtime by {theirs:.1e}"
    if not math.isfinite(ours):
        return f"{measured}: the model itself computes no numbers, as after a training that diverged: look at its loss"
    if not theirs <= _LIKE_ROUNDING * ours:
        return f"{measured}, which is more than rounding: the exported graph is wrong. Report it with the recipe"
    digit = 10.0 ** math.floor(math.log10(parity.max_difference))
    enough = digit * math.ceil(parity.max_difference / digit)
    return (
        f"{measured}: both round, as in long sentences, or with the large numbers of a model whose training diverged. "
        f"If its loss and its scores are good, set export.parity_tolerance to {enough:.0e}"
    )


def compare(
    reference: Stepper, exported: Stepper, sources: Sequence[Sequence[int]], search: SearchConfig, tie: float = 0.0
) -> Parity:
    """Compare two steppers in a beam search.

    Both steppers first search together on the reference's path, which gives the differences of log-probabilities. Then
    `exported` searches alone. If its result differs, both also search together on its path.

    The beams of a sentence, with `search.n_best` hypotheses each, are the same if at each rank both have the same
    tokens, or scores that differ by at most `tie`: tied hypotheses may swap. Beams also count as the same if rounding
    decided which hypotheses stayed in the beam: at the first step that keeps other partial hypotheses, the sums at each
    rank differ by at most `tie`.

    Args:
        reference: the stepper whose results are right.
        exported: the stepper to check.
        sources: ids of the sentences to translate.
        search: the beam search.
        tie: largest difference of scores in nats that counts as a tie.
    """
    both, back = _Both(reference, exported), _Both(exported, reference)
    ordered = sorted(sources, key=len, reverse=True)
    identical = 0
    for first in range(0, len(ordered), _BATCH_SENTENCES):
        batch = ordered[first : first + _BATCH_SENTENCES]
        expected_way, found_way = _Way(len(batch)), _Way(len(batch))
        expected = n_best(both, batch, search, observe=expected_way)
        translated = n_best(exported, batch, search, observe=found_way)
        identical += sum(
            _alike(expected[place], translated[place], tie)
            or _part_at_a_tie(expected_way.steps[place], found_way.steps[place], tie)
            for place in range(len(batch))
        )
        if any(_tokens(one) != _tokens(other) for one, other in zip(expected, translated, strict=True)):
            n_best(back, batch, search)
    return Parity(len(sources), identical, float(np.maximum(both.max_difference, back.max_difference)))


_Step = tuple[list[tuple[int, ...]], Sums]
"""Partial hypotheses of a sentence, best first, and their sums [K]."""


class _Way:
    """Observer that records the partial hypotheses kept at each step of a search, by sentence."""

    def __init__(self, sentences: int) -> None:
        self.steps: list[list[_Step]] = [[] for _ in range(sentences)]

    def __call__(self, step: BeamStep) -> None:
        rows = len(step.id_RC) // len(step.place_B)
        for number, place in enumerate(step.place_B.tolist()):
            steps = self.steps[place]
            before = steps[-1][0] if steps else [()]
            parents = (step.parent_BK[number] - number * rows).tolist()
            pairs = zip(parents, step.token_BK[number].tolist(), strict=True)
            steps.append(([(*before[parent], token) for parent, token in pairs], step.sum_BK[number]))


def _tokens(beam: Sequence[Hypothesis]) -> list[tuple[int, ...]]:
    return [hypothesis.ids for hypothesis in beam]


def _alike(expected: Sequence[Hypothesis], translated: Sequence[Hypothesis], tie: float) -> bool:
    """Return True if two beams are the same at each rank, except for ties."""
    return len(expected) == len(translated) and all(
        one.ids == other.ids or abs(one.score - other.score) <= tie
        for one, other in zip(expected, translated, strict=True)
    )


def _part_at_a_tie(expected: Sequence[_Step], translated: Sequence[_Step], tie: float) -> bool:
    """Return True if two searches of a sentence first differ in a choice between tied hypotheses."""
    for (one, sum_K), (other, other_sum_K) in zip(expected, translated, strict=False):
        if one != other:
            return bool((np.abs(sum_K - other_sum_K) <= tie).all())
    return False


def unlike_without_scores(scored: Stepper, unscored: Stepper, sources: Sequence[Sequence[int]]) -> int:
    """Return the number of sources to which greedy search gives another translation if steps return no scores."""
    search, unlike = SearchConfig(beam_size=1), 0
    ordered = sorted(sources, key=len, reverse=True)
    for first in range(0, len(ordered), _BATCH_SENTENCES):
        batch = ordered[first : first + _BATCH_SENTENCES]
        both = (greedy_search(stepper, batch, search) for stepper in (scored, unscored))
        unlike += sum(one.ids != other.ids for one, other in zip(*both, strict=True))
    return unlike


class _Both:
    """Stepper that passes each call to two others and returns the answer of the first."""

    def __init__(self, leading: Stepper, following: Stepper) -> None:
        self.leading = leading
        self.following = following
        self.max_difference = 0.0

    @property
    def vocab_size(self) -> int:
        return self.leading.vocab_size

    def start(self, source_BS: Ints, candidates: int) -> Decoding:
        started = (self.leading.start(source_BS, candidates), self.following.start(source_BS, candidates))
        return _BothDecoding(self, *started)


class _BothDecoding:
    def __init__(self, both: _Both, leading: Decoding, following: Decoding) -> None:
        self.both = both
        self.leading = leading
        self.following = following

    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        answer = self.leading.step(tokens_R, parents_R)
        difference = largest_difference(answer, self.following.step(tokens_R, parents_R))
        self.both.max_difference = float(np.maximum(self.both.max_difference, difference))  # keeps NaN
        return answer

    def keep(self, sentences: Ints) -> None:
        self.leading.keep(sentences)
        self.following.keep(sentences)


def largest_difference(expected: tuple[Floats, Ints], computed: tuple[Floats, Ints]) -> float:
    """Return the largest difference in nats between log-probabilities of the same token, over both lists of candidates.

    A token that the other list lacks is at most as probable as the last token of that list, which gives the smallest
    difference that it can have.
    """
    return float(np.maximum(_one_way(expected, computed), _one_way(computed, expected)))


def _one_way(one: tuple[Floats, Ints], other: tuple[Floats, Ints]) -> float:
    same_RCC = one[1][:, :, None] == other[1][:, None, :]
    matched_RC = np.where(same_RCC, other[0][:, None, :], -np.inf).max(axis=2)
    matched_RC = np.where(same_RCC.any(axis=2), matched_RC, other[0][:, -1:])
    with np.errstate(invalid="ignore"):  # a forbidden token is -inf in both
        return float(np.where(one[0] == matched_RC, 0.0, np.abs(one[0] - matched_RC)).max())
