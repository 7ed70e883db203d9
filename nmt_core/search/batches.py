"""Which sources are translated together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the benchmark's interpreters of others cut their batches here, and have no pydantic
    from nmt_core.config import SearchConfig

_MOST_LOGITS = 2**25
"""That a step of a batch computes, of all its hypotheses: 128 MB in fp32. Their softmax takes as much again."""
_DRAWN = 4
"""Times as much memory is taken where each of them may be drawn."""
_EVEN = 4
"""Of so many batches, or a multiple of it, one, two or four threads have the same number each."""


def most_sources(config: "SearchConfig", vocab_size: int) -> int:
    """Sources that a batch may hold, be they ever so short: what a step computes grows with their number."""
    drawn = config.n_best * (1 if config.top_k else _DRAWN)
    rows = config.beam_size if config.method == "beam" else drawn
    return max(1, _MOST_LOGITS // (vocab_size * rows))


def batches_by_length(lengths: Sequence[int], batch_tokens: int, most_together: int = 0) -> list[list[int]]:
    """Places of the sources that are not empty, in batches of like length and even size, the longest first.

    A batch holds at most `batch_tokens` source tokens, padding and end marks included, or one source, and no more than
    `most_together` (0: no matter how many). Of more than one batch there are two, or a multiple of four, as far as
    there are sources for them, so that threads end together: cut as large as may be, three batches would take two
    threads as long as four. What is in a batch depends on the sources and on these bounds, and not on the number of
    threads, on which no byte of an output may depend.
    """
    ordered = sorted((place for place in range(len(lengths)) if lengths[place]), key=lambda place: -lengths[place])
    most_together = most_together or len(ordered)
    batches = _cut(ordered, lengths, batch_tokens, most_together)
    if len(batches) < 2:
        return batches
    most = 2 if len(batches) == 2 else -(-len(batches) // _EVEN) * _EVEN
    too_small, enough = 0, batch_tokens
    while enough - too_small > 1:
        tokens = (too_small + enough) // 2
        if len(_cut(ordered, lengths, tokens, most_together)) > most:
            too_small = tokens
        else:
            enough = tokens
    return _cut(ordered, lengths, enough, most_together)


def _cut(ordered: Sequence[int], lengths: Sequence[int], batch_tokens: int, most_together: int) -> list[list[int]]:
    """Batches of sources that are in the order of their lengths, each as large as it may be."""
    batches: list[list[int]] = []
    longest = 0
    for place in ordered:
        size = len(batches[-1]) + 1 if batches else 0
        if not size or size > most_together or size * longest > batch_tokens:
            batches.append([])
            longest = lengths[place] + 1
        batches[-1].append(place)
    return batches
