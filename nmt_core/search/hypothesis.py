"""What a search finds, and how it is measured and remembered; the same for every method.

Letters in names of arrays: R rows of a step, H hypotheses, T target tokens.
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
"""Places in a source and in its target that belong together."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation, as ids."""

    ids: tuple[int, ...]
    """Target ids without <s> and </s>."""
    score: float
    """Sum of the log-probabilities in nats over `length_penalty`; of the tokens that were free to be chosen."""
    cut: bool = False
    """Whether it stopped at its greatest length without an end mark."""
    links: Links = ()
    """Places of source ids and of target ids that belong together, if that was asked for."""


class Ending(NamedTuple):
    """A hypothesis whose ids are still in `History`."""

    score: float
    length: int
    """Target tokens, and the step that read the last of them."""
    row: int
    """Row of that step."""
    cut: bool = False


class History:
    """The tokens that a batch has read, step by step: a hypothesis is the way back from its last row.

    No row is ever copied on the way, and those of sentences that have left the batch stay.
    """

    def __init__(self) -> None:
        self._tokens: list[Ints] = []
        self._parents: list[Ints] = []

    def add(self, tokens_R: Ints, parents_R: Ints) -> None:
        """The next step, as `Decoding.step` gets it."""
        self._tokens.append(tokens_R)
        self._parents.append(parents_R)

    def hypotheses(self, endings: Sequence[Ending]) -> list[Hypothesis]:
        """The hypotheses with these endings, in their order; all go back together, a step at a time."""
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
    """((5 + length) / 6)^alpha (Wu et al. 2016, section 7, equation 14, without the coverage term).

    `length` counts the target tokens whose log-probabilities are in the sum: the end mark too, but neither <s> nor the
    tokens of a prefix that was given.
    """
    return math.pow((5 + length) / 6, alpha)


def length_penalties(most: int, alpha: float) -> Sums:
    """`length_penalty` of each length from 0 to `most`."""
    return np.array([length_penalty(length, alpha) for length in range(most + 1)])
