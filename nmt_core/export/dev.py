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
