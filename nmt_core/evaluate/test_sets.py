"""The test sets of a split, each known by the hash of its text: equal hashes, and old translations can be compared."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import polars


@dataclass(frozen=True)
class TestSet:
    """Sentences to translate, and their translations by people."""

    __test__ = False  # else pytest would take it for a class of tests

    name: str
    sources: list[str]
    references: list[str]

    @property
    def sha256(self) -> str:
        """Of its text, whatever file holds it."""
        text = json.dumps([self.sources, self.references], ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_test_sets(split: Path) -> list[TestSet]:
    """All of them, the main one first."""
    files: dict[str, str] = json.loads((split / "splits.json").read_text(encoding="utf-8"))["tests"]
    found = []
    for name, file in files.items():
        pairs = polars.read_parquet(split / file, columns=["source", "target"], glob=False)
        found.append(TestSet(name, pairs["source"].to_list(), pairs["target"].to_list()))
    return found


def hypotheses_file(folder: Path, test_set: str) -> Path:
    """Where `evaluate` writes the translations of a test set: one line each."""
    return folder / f"{test_set}.hypotheses.txt"


def read_hypotheses(folder: Path, test_set: str) -> list[str]:
    """The translations of a test set.

    Raises:
        OSError: there are none.
    """
    text = hypotheses_file(folder, test_set).read_bytes().decode("utf-8")  # read_text would take "\\r" for a line's end
    return text.split("\n")[:-1]
