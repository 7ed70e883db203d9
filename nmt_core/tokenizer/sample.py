"""Draw a seeded sample of the training text while reading it. Memory holds one batch of rows at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq

from nmt_core.config import Side
from nmt_core.errors import DataError

_TEXT_FILES = "train-*.parquet"
_BATCH_ROWS = 50_000


def text_shards(split: Path) -> tuple[Path, ...]:
    """Return the shards of the training text, in order.

    Raises:
        DataError: there are none.
    """
    shards = tuple(sorted(split.glob(_TEXT_FILES)))
    if not shards:
        raise DataError(f"{split}: contains no {_TEXT_FILES}: run the stage `split` again (`--force split`)")
    return shards


def count_pairs(shard: Path) -> int:
    """Return the number of rows of a shard without reading them."""
    return int(pq.read_metadata(shard).num_rows)


@dataclass(frozen=True)
class Sample:
    """Random sample of about this share of the pairs.

    The draw of a pair depends on the seed and on the position of the pair in the whole text, not on the cut into
    shards.
    """

    shards: tuple[Path, ...]
    share: float
    seed: int

    def lines(self, column: Side | Literal["pair"]) -> Iterator[str]:
        """Yield one side of the drawn pairs, or their pairs of languages, in the order of the text."""
        draw = np.random.default_rng(self.seed)  # one number for each row, in order, whatever the shards are
        for shard in self.shards:
            for batch in pq.ParquetFile(shard).iter_batches(_BATCH_ROWS, columns=[column]):
                drawn = np.flatnonzero(draw.random(len(batch)) < self.share)
                yield from batch.column(0).take(drawn).to_pylist()

    def __len__(self) -> int:
        """Return the number of drawn pairs."""
        draw = np.random.default_rng(self.seed)
        return sum(int((draw.random(count_pairs(shard)) < self.share).sum()) for shard in self.shards)
