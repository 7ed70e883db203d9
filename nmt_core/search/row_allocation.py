"""In which row of a batch each hypothesis lies, so that as little as can be is copied from step to step.

A search numbers its hypotheses anew at each step, best first, and its sentences when some leave. What has been computed
for them is large, and mostly goes on where it lies: a hypothesis that continues another takes over its row, a second
one that continues the same gets a copy in a row that nothing continues, and a sentence from the end takes the place of
one that left. So the places of a batch stay without gaps. Imports neither torch nor onnxruntime.

Letters in names of arrays: B sentences, K hypotheses of each, R = B * K rows, N copies.
"""

import numpy as np

from nmt_core.search.step import Ints

Copies = tuple[Ints, Ints]
"""Places, and the places over which what lies there is to be copied; no place is in both: each [N]."""
_NOTHING = np.empty(0, dtype=np.int64)


class Places:
    """Of one batch, at first with one hypothesis for each sentence, in their order.

    Args:
        sentences: how many.
    """

    def __init__(self, sentences: int) -> None:
        self.of_sentence_B = np.arange(sentences)
        """A permutation."""
        self.of_row_R = np.arange(sentences)
        """A permutation. The rows of a sentence lie side by side, at K times its own place."""
        self.hypotheses = 1
        """K, of the step before."""

    def keep(self, sentences: Ints) -> Copies:
        """Let the other sentences leave.

        Args:
            sentences: as of `search.step.Decoding.keep`.

        Returns:
            What is to be copied of what belongs to sentences. Of rows, `follow` or `spread` tell at the next step.
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
        """Whether sentences have as many hypotheses as before, so that `follow` can do."""
        return len(parents_R) == len(self.of_sentence_B) * self.hypotheses

    def follow(self, parents_R: Ints) -> Copies:
        """Let each hypothesis continue one of its own sentence.

        Args:
            parents_R: as of `search.step.Decoding.step`.

        Returns:
            Which rows are to be copied.
        """
        if np.array_equal(parents_R, np.arange(len(self.of_row_R))):  # as in most steps of a greedy search
            return _NOTHING, _NOTHING
        source_R = self.of_row_R[parents_R]
        sentence_R = self.of_sentence_B.repeat(self.hypotheses)
        number_R = np.arange(len(source_R))
        first_R = np.empty(len(self.of_row_R), dtype=np.int64)
        first_R[source_R[::-1]] = number_R[::-1]  # of several that continue the same, the last to be written stays
        takes_over_R = (first_R[source_R] == number_R) & (source_R // self.hypotheses == sentence_R)
        is_free_R = np.ones(len(source_R), dtype=bool)
        is_free_R[source_R[takes_over_R]] = False
        # A sentence has as many free rows as it has hypotheses without one; both are put in the order of sentences.
        further_N = np.flatnonzero(~takes_over_R)
        further_N = further_N[sentence_R[further_N].argsort(kind="stable")]
        over_N = np.flatnonzero(is_free_R)
        copied_N = source_R[further_N]
        source_R[further_N] = over_N
        self.of_row_R = source_R
        return copied_N, over_N

    def spread(self, parents_R: Ints) -> Ints:
        """Put all rows anew, of any number for each sentence: the row of the step before for each place."""
        source_R = self.of_row_R[parents_R]
        self.hypotheses = len(parents_R) // len(self.of_sentence_B)
        self.of_row_R = (self.of_sentence_B[:, None] * self.hypotheses + np.arange(self.hypotheses)).ravel()
        row_R = np.empty_like(source_R)
        row_R[self.of_row_R] = source_R
        return row_R
