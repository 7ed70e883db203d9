"""Record the tree of a beam search: the hypotheses that were alive at each step, given up, or ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nmt_core.search.beam import BeamStep
from nmt_core.search.hypothesis import Ending, length_penalty
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID

State = Literal["alive", "given up", "ended", "stopped"]


@dataclass(frozen=True)
class Node:
    """Hypothesis at one step: the token that it adds to its parent."""

    step: int
    """Number of the step. 0 is the root, which has read <s> alone."""
    token: int
    parent: int | None
    """Number of the node that it continues. None for the root."""
    sum: float
    """Sum of the log-probabilities of its tokens, in nats."""
    state: State
    """State of the hypothesis: continued by another node (alive), dropped for better ones (given up), complete (ended),
    or still alive when the search stopped (stopped)."""
    score: float | None = None
    """Sum over the length penalty, for a hypothesis that has ended."""
    chosen: bool = False
    """True if it is on the path to the translation."""


class BeamTrace:
    """Observer of the search of one sentence."""

    def __init__(self) -> None:
        self._nodes = [Node(0, BOS_ID, None, 0.0, "stopped")]
        self._alive = [0]
        """Numbers of the nodes of the partial hypotheses, by row."""
        self._newest = 0
        """Number of the first live node of the last step."""
        self._steps = 0
        self._ended: list[tuple[Ending, int]] = []

    def __call__(self, step: BeamStep) -> None:
        """Record one step."""
        self._steps += 1
        before = self._alive
        for ending in step.endings[0][len(self._ended) :]:
            self._ended.append((ending, self._add_ending(ending, before)))
        self._alive, self._newest = [], len(self._nodes)
        for token, row, total in zip(step.token_BK[0], step.parent_BK[0], step.sum_BK[0], strict=True):
            if np.isfinite(total):
                self._nodes.append(Node(self._steps, int(token), before[row], float(total), "stopped"))
                self._alive.append(len(self._nodes) - 1)
            else:  # with a given next token, the other beams of a sentence hold no hypothesis
                self._alive.append(before[row])

    def _add_ending(self, ending: Ending, before: Sequence[int]) -> int:
        parent = before[ending.row]
        if not ending.cut:
            self._nodes.append(Node(self._steps, EOS_ID, parent, 0.0, "ended", ending.score))
            return len(self._nodes) - 1
        return parent

    def tree(self, alpha: float, given: int = 0) -> tuple[Node, ...]:
        """Return every node, parents first.

        Args:
            alpha: exponent of the length penalty.
            given: number of tokens of the prefix, which do not count in the length.
        """
        continued = {node.parent for node in self._nodes}
        chosen = self._chosen()
        return tuple(
            Node(
                node.step,
                node.token,
                node.parent,
                node.sum if node.score is None else node.score * length_penalty(node.step - given, alpha),
                self._state(number, node, continued),
                node.score,
                number in chosen,
            )
            for number, node in enumerate(self._nodes)
        )

    def _state(self, number: int, node: Node, continued: set[int | None]) -> State:
        if node.state == "ended":
            return "ended"
        if number in continued:
            return "alive"
        return "stopped" if number >= self._newest else "given up"

    def _chosen(self) -> set[int]:
        """Return the numbers of the nodes on the path to the best ending."""
        _, number = max(self._ended, key=lambda ended: ended[0].score)  # the first of equal ones, as in the search
        places = set[int]()
        place: int | None = number
        while place is not None:
            places.add(place)
            place = self._nodes[place].parent
        return places
