"""Count pairs by their length in tokens, and forecast the share of padding in training."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from pydantic import BaseModel, ConfigDict

from nmt_core.batches.plan import Capacity, pack_micro_batches, packed_capacity, pad_micro_batches

PairCounts = Counter[tuple[int, int]]
"""Number of pairs by their number of source tokens and of target tokens, end marks included."""

_EDGES = (0, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024)
_SLICES = (1_024, 2_048, 4_096, 8_192, 16_384)
_FORECAST_PAIRS = 80_000  # as many as a plan cuts into micro-batches at a time (a block)


class LengthBin(BaseModel):
    """Number of sentences in a range of lengths."""

    model_config = ConfigDict(frozen=True)
    tokens: str
    source: int
    target: int


def count_sizes(lengths_N2: np.ndarray) -> PairCounts:
    """Count the pairs by source and target length."""
    width = int(lengths_N2.max(initial=0)) + 1
    sizes, counts = np.unique(lengths_N2[:, 0] * width + lengths_N2[:, 1], return_counts=True)
    return Counter({divmod(size, width): count for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)})


def histogram(pairs: Mapping[tuple[int, int], int]) -> list[LengthBin]:
    """Return the number of sentences of each side by length, up to the longest sentence."""
    sizes_N2, counts_N = _arrays(pairs)
    bins = []
    for below, most in pairwise(_EDGES):
        if below >= sizes_N2.max():
            break
        inside_N2 = (sizes_N2 > below) & (sizes_N2 <= most)
        source, target = (counts_N @ inside_N2).tolist()
        bins.append(LengthBin(tokens=f"{below + 1}-{most}", source=source, target=target))
    return bins


def useful_token_share(pairs: Mapping[tuple[int, int], int]) -> dict[str, float]:
    """Return the share of tokens in micro-batches that are not padding.

    The keys name `train.batching` and `train.micro_batch_tokens`. For a large corpus, the plan is made of fewer pairs
    with the same distribution of lengths.
    """
    sizes_N2, counts_N = _arrays(pairs)
    total = int(counts_N.sum())
    planned = min(total, _FORECAST_PAIRS)
    places = np.arange(planned) * total // planned
    lengths_N2 = sizes_N2[np.searchsorted(np.cumsum(counts_N), places, side="right")]
    useful, draw = int(lengths_N2.sum()), np.random.default_rng(0)
    shares = {}
    for tokens in _SLICES:
        if tokens >= lengths_N2.max():
            micro_batches = pad_micro_batches(lengths_N2, Capacity(tokens, tokens), draw)
            padded = sum(len(rows) * int(lengths_N2[rows].max(axis=0).sum()) for rows in micro_batches)
            shares[f"padded {tokens}"] = round(useful / padded, 4)
    for tokens in _SLICES:
        if tokens >= lengths_N2.max():
            capacity = packed_capacity(tokens, lengths_N2.sum(axis=0))
            streams = len(pack_micro_batches(lengths_N2, capacity, draw)) * (capacity.source + capacity.target)
            shares[f"packed {tokens}"] = round(useful / streams, 4)
    return shares


def _arrays(pairs: Mapping[tuple[int, int], int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of pairs [N, 2] in ascending order, and the number of pairs that have them [N]."""
    ordered = sorted(pairs)
    return np.array(ordered, np.int64).reshape(-1, 2), np.array([pairs[size] for size in ordered], np.int64)
