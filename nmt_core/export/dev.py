"""The dev set: text that the model was not trained on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars


@dataclass(frozen=True)
class Dev:
    """The dev set."""

    sources: Sequence[str]
    references: Sequence[str]

    @classmethod
    def read(cls, split: Path) -> "Dev":
        """From the folder of the artifact `split`."""
        file = json.loads((split / "splits.json").read_text(encoding="utf-8"))["dev"]
        pairs = polars.read_parquet(split / file, columns=["source", "target"], glob=False)
        return cls(pairs["source"].to_list(), pairs["target"].to_list())

    def spread(self, count: int) -> "Dev":
        """So many of its lines, as `spread` takes them."""
        places = spread(count, len(self.sources))
        return Dev([self.sources[place] for place in places], [self.references[place] for place in places])


def spread(count: int, lines: int) -> list[int]:
    """Places of so many lines of a text, or of all it has, at even distances: text of several sets lies one behind the
    other, and each has its share.
    """
    count = min(count, lines)
    return [number * lines // count for number in range(count)]
