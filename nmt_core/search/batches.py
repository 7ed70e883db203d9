"""Which sources are translated together. Standard library only."""

from collections.abc import Sequence

_EVEN = 4
"""Of so many batches, or a multiple of it, one, two or four threads have the same number each."""


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Places of the sources that are not empty, in batches of like length and even size, the longest first.

    A batch holds at most `batch_tokens` source tokens, padding and end marks included, or one source. Of more than one
    batch there are two, or a multiple of four, as far as there are sources for them, so that threads end together:
    cut as large as may be, three batches would take two threads as long as four. What is in a batch depends on the
    sources and on `batch_tokens`, and not on the number of threads, on which no byte of an output may depend.
    """
    ordered = sorted((place for place in range(len(lengths)) if lengths[place]), key=lambda place: -lengths[place])
    batches = _cut(ordered, lengths, batch_tokens)
    if len(batches) < 2:
        return batches
    most = 2 if len(batches) == 2 else -(-len(batches) // _EVEN) * _EVEN
    too_small, enough = 0, batch_tokens
    while enough - too_small > 1:
        tokens = (too_small + enough) // 2
        if len(_cut(ordered, lengths, tokens)) > most:
            too_small = tokens
        else:
            enough = tokens
    return _cut(ordered, lengths, enough)


def _cut(ordered: Sequence[int], lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Batches of sources that are in the order of their lengths, each as large as it may be."""
    batches: list[list[int]] = []
    longest = 0
    for place in ordered:
        if not batches or (len(batches[-1]) + 1) * longest > batch_tokens:
            batches.append([])
            longest = lengths[place] + 1
        batches[-1].append(place)
    return batches
