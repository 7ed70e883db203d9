"""The plan of batches: which pairs are trained on together, and in what order.

The plan of an epoch is a pure function of the lengths, the seed and the epoch; a position in it is one integer. So the
state of the data is two integers, and the number of processes plays no part: stop with four, go on with two, and the
same pairs come in the same order.
"""

import numpy as np


def plan_epoch(lengths_N2: np.ndarray, max_tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Batches of one epoch, each an array of row numbers.

    Pairs of like length are put together, so that little is lost to padding; which of the equally long ones meet, and
    the order of the batches, is drawn anew in every epoch.

    Args:
        lengths_N2: source and target tokens of each pair; none above `max_tokens`.
        max_tokens: no batch has more than this many tokens on either side, padding included.
        seed: seed of the draw.
        epoch: number of the epoch, from 0.
    """
    draw = np.random.default_rng([seed, epoch])
    longest = lengths_N2.max(axis=1)
    shuffled = draw.permutation(len(lengths_N2))
    # Longest side first, then the other: both sides of a batch are nearly even.
    order = shuffled[np.lexsort((lengths_N2.sum(axis=1)[shuffled], longest[shuffled]))]
    batches, start = [], 0
    while start < len(order):
        # The order ascends by `longest`, so the last row of a batch decides its padded size.
        ends = np.arange(start + 1, min(start + 1 + max_tokens, len(order) + 1))
        padded = (ends - start) * longest[order[ends - 1]]
        size = max(1, int(np.searchsorted(padded, max_tokens, side="right")))
        batches.append(order[start : start + size])
        start += size
    return [batches[index] for index in draw.permutation(len(batches))]


def share_of_rank(batch: np.ndarray, rank: int, world_size: int) -> np.ndarray:
    """Rows of a batch that one rank computes; the shares are disjoint, complete, and differ by one row at most."""
    return batch[rank::world_size]


def cut_to_passes(rows: np.ndarray, longest: int, max_tokens: int) -> list[np.ndarray]:
    """Cut one rank's rows into forward passes of at most `max_tokens` tokens a side; `longest` is the padded length."""
    size = max(1, max_tokens // max(1, longest))
    return [rows[start : start + size] for start in range(0, len(rows), size)]
