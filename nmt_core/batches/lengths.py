"""How long the pairs are, in tokens: counted shard by shard, and what it means for padding."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from pydantic import BaseModel, ConfigDict

from nmt_core.batches.plan import plan_epoch

PairCounts = Counter[tuple[int, int]]
"""How many pairs have so many source and so many target tokens, end marks included."""

_EDGES = (0, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024)
_BUDGETS = (2_000, 8_000, 25_000, 100_000)
_FORECAST_PAIRS = 1_000_000


class LengthBin(BaseModel):
    """Sentences of like length."""

    model_config = ConfigDict(frozen=True)
    tokens: str
    source: int
    target: int


def count_sizes(lengths_N2: np.ndarray) -> PairCounts:
    """Count the pairs of each size."""
    width = int(lengths_N2.max(initial=0)) + 1
    sizes, counts = np.unique(lengths_N2[:, 0] * width + lengths_N2[:, 1], return_counts=True)
    return Counter({divmod(size, width): count for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)})


def histogram(pairs: Mapping[tuple[int, int], int]) -> list[LengthBin]:
    """Sentences of each side by length, as far as there are any."""
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
    """Share of the tokens in a batch that are no padding, by `train.max_tokens`, from the plan of one epoch.

    Above a million pairs it is planned with a million that are like them; the real share is a little higher.
    """
    sizes_N2, counts_N = _arrays(pairs)
    total = int(counts_N.sum())
    planned = min(total, _FORECAST_PAIRS)
    places = np.arange(planned) * total // planned
    lengths_N2 = sizes_N2[np.searchsorted(np.cumsum(counts_N), places, side="right")]
    shares = {}
    for budget in _BUDGETS:
        if budget >= lengths_N2.max():
            batches = plan_epoch(lengths_N2, budget, seed=0, epoch=0)
            padded = sum(len(batch) * int(lengths_N2[batch].max(axis=0).sum()) for batch in batches)
            shares[f"{budget}"] = round(int(lengths_N2.sum()) / padded, 4)
    return shares


def _arrays(pairs: Mapping[tuple[int, int], int]) -> tuple[np.ndarray, np.ndarray]:
    """Sizes [N, 2], ascending, and how many pairs have each [N]."""
    ordered = sorted(pairs)
    return np.array(ordered, np.int64).reshape(-1, 2), np.array([pairs[size] for size in ordered], np.int64)
