"""Each hypothesis finds its history in its row, whatever continues what, and no row is copied without need."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.search.row_allocation import Places


class Batch:
    """Search that remembers, beside one whose memory is in rows."""

    def __init__(self, sentences: int) -> None:
        self.places = Places(sentences)
        self.read_R: list[tuple[int, ...]] = [(sentence,) for sentence in range(sentences)]
        """Tokens that each hypothesis has read, in the order of the search. The first one is its sentence."""
        self.in_row_R = list(self.read_R)
        self.in_sentence_B = list(range(sentences))
        self.sentence_B = list(range(sentences))

    def keep(self, sentences: list[int]) -> None:
        """Remove the other sentences."""
        copied_N, over_N = self.places.keep(np.array(sentences))
        assert not set(copied_N) & set(over_N)
        for source, over in zip(copied_N, over_N, strict=True):
            self.in_sentence_B[over] = self.in_sentence_B[source]
        self.in_sentence_B = self.in_sentence_B[: len(sentences)]
        self.sentence_B = [self.sentence_B[sentence] for sentence in sentences]
        assert [self.in_sentence_B[place] for place in self.places.of_sentence_B] == self.sentence_B

    def step(self, parents_R: np.ndarray, token: int) -> int:
        """Continue these hypotheses, and return how many rows were copied."""
        copied = 0
        if self.places.fits(parents_R):
            copied_N, over_N = self.places.follow(parents_R)
            assert not set(copied_N) & set(over_N)
            for source, over in zip(copied_N, over_N, strict=True):
                self.in_row_R[over] = self.in_row_R[source]
            self.in_row_R, copied = self.in_row_R[: len(parents_R)], len(copied_N)
        else:
            self.in_row_R = [self.in_row_R[row] for row in self.places.spread(parents_R)]
        self.in_row_R = [(*read, token) for read in self.in_row_R]
        self.read_R = [(*self.read_R[parent], token) for parent in parents_R]
        assert [self.in_row_R[row] for row in self.places.of_row_R] == self.read_R
        assert sorted(self.places.of_row_R) == list(range(len(parents_R)))
        for row, read in enumerate(self.in_row_R):
            assert self.in_sentence_B[row // self.places.hypotheses] == read[0]
        return copied


@given(st.data())
def test_every_hypothesis_finds_what_it_has_read(data: st.DataObject) -> None:
    batch, hypotheses = Batch(data.draw(st.integers(1, 5))), 1
    batch.step(np.arange(len(batch.sentence_B)), 0)
    stayed = list(range(len(batch.sentence_B)))  # places of the step before, of the sentences that are still there
    for token in range(1, 7):
        before, hypotheses = hypotheses, data.draw(st.sampled_from([hypotheses, 3, 4]))
        choices = st.lists(st.integers(0, before - 1), min_size=hypotheses, max_size=hypotheses)
        parents_R = [sentence * before + which for sentence in stayed for which in data.draw(choices)]
        batch.step(np.array(parents_R), token)
        stayed = list(range(len(batch.sentence_B)))
        if len(stayed) > 1 and data.draw(st.booleans()):
            stayed = sorted(data.draw(st.sets(st.sampled_from(stayed), min_size=1, max_size=len(stayed) - 1)))
            batch.keep(stayed)


@pytest.mark.parametrize(
    ("parents_R", "copied"),
    [
        ([0, 1, 2, 3, 4, 5], 0),
        ([2, 0, 1, 5, 4, 3], 0),
        ([0, 0, 1, 3, 4, 5], 1),
        ([1, 1, 1, 5, 3, 5], 3),
    ],
)
def test_only_what_is_continued_twice_is_copied(parents_R: list[int], copied: int) -> None:
    batch = Batch(2)
    batch.step(np.array([0, 0, 0, 1, 1, 1]), 0)
    assert batch.step(np.array(parents_R), 1) == copied


def test_the_last_sentence_takes_the_place_of_one_that_left() -> None:
    places = Places(5)
    assert [array.tolist() for array in places.keep(np.array([0, 2, 3, 4]))] == [[4], [1]]
    assert places.of_sentence_B.tolist() == [0, 2, 3, 1]
