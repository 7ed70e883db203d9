"""Allocate the rows of a batch to hypotheses, so that as little as possible is copied from step to step.

A search renumbers its hypotheses at each step, best first, and its sentences when some leave. The tensors of a
hypothesis are large, and mostly stay where they are. A hypothesis that continues another takes over its row. A second
one that continues the same gets a copy, in a row that no hypothesis continues. When a sentence leaves, a sentence from
the end takes its place. So the places of a batch have no gaps. Imports neither torch nor onnxruntime.

Letters: see `nmt_core.models`. Here N counts copies.
"""

import numpy as np

from nmt_core.search.step import Ints

Copies = tuple[Ints, Ints]
"""Places to copy, and places to overwrite with them, each [N]. No place is in both."""
_NOTHING = np.empty(0, dtype=np.int64)


class Places:
    """Places of the sentences and hypotheses of one batch.

    At first each sentence has one hypothesis, and all are in order.

    Args:
        sentences: number of sentences.
    """

    def __init__(self, sentences: int) -> None:
        self.of_sentence_B = np.arange(sentences)
        """Place of each sentence, a permutation."""
        self.of_row_R = np.arange(sentences)
        """Place of each row, a permutation. The rows of a sentence are side by side, at K times the place of the
        sentence."""
        self.hypotheses = 1
        """Number of hypotheses of a sentence at the previous step (K)."""

    def keep(self, sentences: Ints) -> Copies:
        """Remove the other sentences.

        Args:
            sentences: places of the sentences to keep (see `search.step.Decoding.keep`).

        Returns:
            Copies for tensors of sentences. For tensors of rows, `follow` or `spread` return them at the next step.
        """
        place_B = self.of_sentence_B[sentences]
        is_outside_B = place_B >= len(place_B)
        is_free_B = np.ones(len(place_B), dtype=bool)
        is_free_B[place_B[~is_outside_B]] = False
        over_N = np.flatnonzero(is_free_B)
        copied_N = place_B[is_outside_B]
        place_B[is_outside_B] = over_N
        self.of_sentence_B = place_B
        return copied_N, over_N

    def fits(self, parents_R: Ints) -> bool:
        """Return True if sentences have as many hypotheses as before, as `follow` requires."""
        return len(parents_R) == len(self.of_sentence_B) * self.hypotheses

    def follow(self, parents_R: Ints) -> Copies:
        """Let each hypothesis continue one of its own sentence.

        Args:
            parents_R: row of the previous step that each row continues (see `search.step.Decoding.step`).

        Returns:
            Copies for tensors of rows.
        """
        if np.array_equal(parents_R, np.arange(len(self.of_row_R))):  # as in most steps of a greedy search
            return _NOTHING, _NOTHING
        source_R = self.of_row_R[parents_R]
        sentence_R = self.of_sentence_B.repeat(self.hypotheses)
        number_R = np.arange(len(source_R))
        first_R = np.empty(len(self.of_row_R), dtype=np.int64)
        first_R[source_R[::-1]] = number_R[::-1]  # reversed: the first that continues a row is written last
        takes_over_R = (first_R[source_R] == number_R) & (source_R // self.hypotheses == sentence_R)
        is_free_R = np.ones(len(source_R), dtype=bool)
        is_free_R[source_R[takes_over_R]] = False
        # A sentence has as many free rows as hypotheses without a row. Both are put in the order of sentences.
        further_N = np.flatnonzero(~takes_over_R)
        further_N = further_N[sentence_R[further_N].argsort(kind="stable")]
        over_N = np.flatnonzero(is_free_R)
        copied_N = source_R[further_N]
        source_R[further_N] = over_N
        self.of_row_R = source_R
        return copied_N, over_N

    def spread(self, parents_R: Ints) -> Ints:
        """Put all rows in order, with any number of rows for each sentence.

        Return the place at the previous step that each place continues.
        """
        source_R = self.of_row_R[parents_R]
        self.hypotheses = len(parents_R) // len(self.of_sentence_B)
        self.of_row_R = (self.of_sentence_B[:, None] * self.hypotheses + np.arange(self.hypotheses)).ravel()
        row_R = np.empty_like(source_R)
        row_R[self.of_row_R] = source_R
        return row_R
