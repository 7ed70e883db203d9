"""The gate between export and everything after it: ONNX Runtime must compute what PyTorch computes. Imports no torch.

Letters in names of arrays: R rows, C candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt_core.config import ExportConfig, SearchConfig
from nmt_core.errors import StageError
from nmt_core.search.beam import beam_search
from nmt_core.search.greedy import greedy_search
from nmt_core.search.step import Decoding, Floats, Ints, Stepper

_BATCH_SENTENCES = 32


@dataclass(frozen=True)
class Parity:
    """How far two steppers agree."""

    sentences: int
    identical: int
    """Sentences that both translated into the same tokens."""
    max_difference: float
    """Largest difference of log-probabilities, in nats, over every candidate of every step."""


def check_parity(
    reference: Stepper, exported: Stepper, sources: Sequence[Sequence[int]], config: ExportConfig
) -> Parity:
    """Compare, and refuse a difference.

    Raises:
        StageError: a log-probability differs by more than `parity_tolerance`, or any translation differs.
    """
    parity = compare(reference, exported, sources, SearchConfig(beam_size=config.parity_beam_size))
    if not parity.max_difference <= config.parity_tolerance:  # not(<=) refuses NaN as well
        raise StageError(
            f"export: log-probabilities of ONNX Runtime and PyTorch differ by up to {parity.max_difference:.2e} nats, "
            f"and export.parity_tolerance={config.parity_tolerance:.0e} is allowed: the exported graph is wrong, or "
            "rounding is coarser, as on another machine, or of the large numbers of a model whose training went astray "
            "(look at its loss and its scores); raise the tolerance only if you know that it is rounding"
        )
    if parity.identical < parity.sentences:
        raise StageError(
            f"export: {parity.sentences - parity.identical} of {parity.sentences} held-out sentences are translated "
            f"otherwise by ONNX Runtime than by PyTorch (beam {config.parity_beam_size}), though all log-probabilities "
            f"that either search looked at agree within {parity.max_difference:.2e} nats: where the searches part, "
            "hypotheses are tied but for rounding: another export.parity_beam_size or export.parity_sentences avoids it"
        )
    return parity


def compare(reference: Stepper, exported: Stepper, sources: Sequence[Sequence[int]], search: SearchConfig) -> Parity:
    """Search with both at once on the reference's path, for the differences; then with `exported` alone.

    Where that ends otherwise, with both at once on its path as well: if nothing differs there either, the paths part at
    a tie.
    """
    both, back = _Both(reference, exported), _Both(exported, reference)
    ordered = sorted(sources, key=len, reverse=True)
    identical = 0
    for first in range(0, len(ordered), _BATCH_SENTENCES):
        batch = ordered[first : first + _BATCH_SENTENCES]
        expected, found = beam_search(both, batch, search), beam_search(exported, batch, search)
        alike = sum(one.ids == other.ids for one, other in zip(expected, found, strict=True))
        identical += alike
        if alike < len(batch):
            beam_search(back, batch, search)
    return Parity(len(sources), identical, float(np.maximum(both.max_difference, back.max_difference)))


def unlike_without_scores(scored: Stepper, unscored: Stepper, sources: Sequence[Sequence[int]]) -> int:
    """Sources that greedy search translates otherwise with steps that do not say how likely tokens are."""
    search, unlike = SearchConfig(beam_size=1), 0
    ordered = sorted(sources, key=len, reverse=True)
    for first in range(0, len(ordered), _BATCH_SENTENCES):
        batch = ordered[first : first + _BATCH_SENTENCES]
        both = (greedy_search(stepper, batch, search) for stepper in (scored, unscored))
        unlike += sum(one.ids != other.ids for one, other in zip(*both, strict=True))
    return unlike


class _Both:
    """A stepper that asks two others the same and answers as the first."""

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


def largest_difference(expected: tuple[Floats, Ints], found: tuple[Floats, Ints]) -> float:
    """Largest difference between log-probabilities of the same token, over both lists of candidates, in nats.

    A token that the other list lacks is at most as probable there as that list's last: that gives its least difference.
    """
    return float(np.maximum(_one_way(expected, found), _one_way(found, expected)))


def _one_way(one: tuple[Floats, Ints], other: tuple[Floats, Ints]) -> float:
    same_RCC = one[1][:, :, None] == other[1][:, None, :]
    matched_RC = np.where(same_RCC, other[0][:, None, :], -np.inf).max(axis=2)
    matched_RC = np.where(same_RCC.any(axis=2), matched_RC, other[0][:, -1:])
    with np.errstate(invalid="ignore"):  # a forbidden token is -inf in both
        return float(np.where(one[0] == matched_RC, 0.0, np.abs(one[0] - matched_RC)).max())
