"""Choose which sources are translated together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # benchmarks of other toolkits use this module in interpreters without pydantic
    from nmt_core.config import SearchConfig

_MOST_LOGITS = 2**25
"""Most logits that a step of a batch computes for all its hypotheses: 128 MB in fp32. Their softmax takes as much
again."""
_DRAWN = 4
"""Factor by which a step needs more memory if any of the logits may be drawn."""
_EVEN = 4
"""Multiple to which the number of batches is raised, so that one, two or four threads have equally many."""


def most_sources(config: "SearchConfig", vocab_size: int, rows: int = 0) -> int:
    """Return the greatest number of sources of a batch, however short they are.

    The memory of a step grows with their number. `rows` is the number of hypotheses of each source. 0 means as many as
    the search needs.
    """
    drawn = config.n_best * (1 if config.top_k else _DRAWN)
    rows = rows or (config.beam_size if config.method == "beam" else drawn)
    return max(1, _MOST_LOGITS // (vocab_size * rows))


def batches_by_length(lengths: Sequence[int], batch_tokens: int, most_together: int = 0) -> list[list[int]]:
    """Return the places of the non-empty sources, in batches of similar length and even size, the longest first.

    A batch holds at most `batch_tokens` source tokens, padding and end marks included, or one source. It holds at most
    `most_together` sources (0 means any number). If one batch is not enough, there are two batches or a multiple of
    four, as far as there are sources for them, so that threads end together: three batches as large as possible would
    take two threads as long as four. A batch depends on the sources and on these bounds, but not on the number of
    threads, because no byte of an output may depend on that.
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
    """Cut sources, ordered by length, into batches that are as large as possible."""
    batches: list[list[int]] = []
    longest = 0
    for place in ordered:
        size = len(batches[-1]) + 1 if batches else 0
        if not size or size > most_together or size * longest > batch_tokens:
            batches.append([])
            longest = lengths[place] + 1
        batches[-1].append(place)
    return batches
