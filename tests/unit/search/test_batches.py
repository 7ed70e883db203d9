"""Grouping of sources that are translated together."""

from hypothesis import given
from hypothesis import strategies as st

from nmt_core.config import SearchConfig
from nmt_core.search.batches import batches_by_length, most_sources

BOUNDS = st.integers(0, 40)
LENGTHS = st.lists(st.integers(0, 60), max_size=200)


@given(LENGTHS, st.integers(1, 500), BOUNDS)
def test_each_source_is_in_one_batch_the_longest_first(lengths: list[int], batch_tokens: int, most: int) -> None:
    batches = batches_by_length(lengths, batch_tokens, most)
    assert not most or max(map(len, batches), default=0) <= most
    places = [place for batch in batches for place in batch]
    assert sorted(places) == [place for place, length in enumerate(lengths) if length]
    assert [lengths[place] for place in places] == sorted(filter(None, lengths), reverse=True)
    assert all(len(batch) == 1 or len(batch) * (lengths[batch[0]] + 1) <= batch_tokens for batch in batches)


@given(LENGTHS, st.integers(1, 500), BOUNDS)
def test_there_are_as_few_as_fit_or_as_many_more_as_make_them_even(
    lengths: list[int], batch_tokens: int, most: int
) -> None:
    fewest, first = 0, 0
    ordered = sorted(filter(None, lengths), reverse=True)
    for place, _ in enumerate(ordered):
        size = place - first + 1
        if not fewest or size * (ordered[first] + 1) > batch_tokens or (most and size > most):
            fewest, first = fewest + 1, place
    made = len(batches_by_length(lengths, batch_tokens, most))
    assert made == fewest or fewest < made <= 4 * ((fewest + 3) // 4)


def test_threads_end_together() -> None:
    """The sources are equal. With as many as fit in each, the last of three batches would be a small one."""
    for fewest, batches in ((1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (11, 12)):
        sources = [9] * (fewest * 40 - 36)
        sizes = [len(batch) for batch in batches_by_length(sources, 400)]
        assert len(sizes) == batches
        assert max(sizes) == -(-len(sources) // batches), "as small as this many batches can be"


def test_a_source_that_is_larger_than_a_batch_has_its_own() -> None:
    assert batches_by_length([5, 0, 90, 5], 12) == [[2], [0, 3]]


def test_a_thousand_words_are_not_searched_at_once_if_each_takes_megabytes() -> None:
    """2,048 tokens are as many as 1,024 lines of one word, with V logits for each of their hypotheses."""
    greedy, beam = SearchConfig(beam_size=1), SearchConfig(beam_size=5)
    samples = SearchConfig(method="sample", n_best=8)
    assert most_sources(greedy, 8_000) > 1_024, "of a usual model, there is no need"
    found = [most_sources(search, 32_000) for search in (greedy, beam, samples)]
    assert all(2**23 < many * rows * 32_000 <= 2**25 for many, rows in zip(found, (1, 5, 8 * 4), strict=True))
    assert most_sources(samples.model_copy(update={"top_k": 20}), 32_000) == 4 * found[2] + 3
    assert most_sources(SearchConfig(beam_size=64), 10**8) == 1
    sizes = [len(batch) for batch in batches_by_length([1] * 1_024, 2_048, found[1])]
    assert sum(sizes) == 1_024 and max(sizes) <= found[1]
