"""Read the dev set: text that the model was not trained on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars


@dataclass(frozen=True)
class Dev:
    """Sources and references of the dev set."""

    sources: Sequence[str]
    references: Sequence[str]

    @classmethod
    def read(cls, split: Path) -> "Dev":
        """Read the dev set from the folder of the artifact `split`."""
        file = json.loads((split / "splits.json").read_text(encoding="utf-8"))["dev"]
        pairs = polars.read_parquet(split / file, columns=["source", "target"], glob=False)
        return cls(pairs["source"].to_list(), pairs["target"].to_list())

    def spread(self, count: int) -> "Dev":
        """Return `count` lines of it, at even distances. See the function `spread`."""
        places = spread(count, len(self.sources))
        return Dev([self.sources[place] for place in places], [self.references[place] for place in places])


def spread(count: int, lines: int) -> list[int]:
    """Return the indices of `count` lines of a text, at even distances, or of all its lines if there are fewer.

    A text may hold several sets one after the other. Even distances give each set its share.
    """
    count = min(count, lines)
    return [number * lines // count for number in range(count)]
