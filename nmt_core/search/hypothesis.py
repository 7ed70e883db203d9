"""Hypotheses of a search, their scores and their history. All search methods share them.

Letters: see `nmt_core.models`. Here H counts hypotheses.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt_core.search.step import Ints

Sums = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Links = tuple[tuple[int, int], ...]
"""Places in a source and in its target that are aligned."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation, as ids."""

    ids: tuple[int, ...]
    """Target ids without <s> and </s>."""
    score: float
    """Sum of the log-probabilities in nats over `length_penalty`. Only tokens that the model chose itself count."""
    cut: bool = False
    """True if it stopped at its greatest length without an end mark."""
    links: Links = ()
    """Places of source ids and of target ids that are aligned. Empty if alignments were not requested."""


class Ending(NamedTuple):
    """Hypothesis whose ids are still in `History`."""

    score: float
    length: int
    """Number of target tokens, and number of the step that read the last of them."""
    row: int
    """Row of that step."""
    cut: bool = False


class History:
    """Tokens that a batch has read, step by step. A hypothesis is the path back from its last row.

    No row is ever copied, and rows of sentences that have left the batch remain.
    """

    def __init__(self) -> None:
        self._tokens: list[Ints] = []
        self._parents: list[Ints] = []

    def add(self, tokens_R: Ints, parents_R: Ints) -> None:
        """Add the next step, with the arguments of `Decoding.step`."""
        self._tokens.append(tokens_R)
        self._parents.append(parents_R)

    def hypotheses(self, endings: Sequence[Ending]) -> list[Hypothesis]:
        """Return the hypotheses with these endings, in their order. All paths are followed together, step by step."""
        length_H = np.array([ending.length for ending in endings])
        row_H = np.array([ending.row for ending in endings])
        ids_HT = np.zeros((len(endings), length_H.max()), dtype=np.int64)
        for step in range(ids_HT.shape[1], 0, -1):  # step 0 read <s>
            has_begun_H = length_H >= step
            rows = row_H[has_begun_H]
            ids_HT[has_begun_H, step - 1] = self._tokens[step][rows]
            row_H[has_begun_H] = self._parents[step][rows]
        return [
            Hypothesis(tuple(ids[: ending.length]), ending.score, ending.cut)
            for ids, ending in zip(ids_HT.tolist(), endings, strict=True)
        ]


def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + length) / 6)^alpha (Wu et al. 2016, section 7, equation 14, without the coverage term).

    `length` is the number of target tokens whose log-probabilities are in the sum. It includes the end mark, but
    neither <s> nor the tokens of a given prefix.
    """
    return math.pow((5 + length) / 6, alpha)


def length_penalties(most: int, alpha: float) -> Sums:
    """Return `length_penalty` of each length from 0 to `most`."""
    return np.array([length_penalty(length, alpha) for length in range(most + 1)])
