"""Read the test sets of a split and their translations.

The hash of a test set's text shows if older translations are of the same text, and can be compared.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import polars


@dataclass(frozen=True)
class TestSet:
    """Test set: sentences to translate, with their reference translations."""

    __test__ = False  # otherwise pytest collects it as a class of tests

    name: str
    sources: list[str]
    references: list[str]

    @property
    def sha256(self) -> str:
        """Hash of the text, which does not depend on the file that holds it."""
        text = json.dumps([self.sources, self.references], ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def swapped(self) -> "TestSet":
        """Return this test set for the other direction."""
        return TestSet(self.name, self.references, self.sources)


def read_test_sets(split: Path) -> list[TestSet]:
    """Return the test sets of a split, the main one first."""
    files: dict[str, str] = json.loads((split / "splits.json").read_text(encoding="utf-8"))["tests"]
    test_sets = []
    for name, file in files.items():
        pairs = polars.read_parquet(split / file, columns=["source", "target"], glob=False)
        test_sets.append(TestSet(name, pairs["source"].to_list(), pairs["target"].to_list()))
    return test_sets


def hypotheses_file(folder: Path, test_set: str) -> Path:
    """Return the file to which `evaluate` writes the translations of a test set, one a line."""
    return folder / f"{test_set}.hypotheses.txt"


def read_hypotheses(folder: Path, test_set: str) -> list[str]:
    """Return the translations of a test set.

    Raises:
        OSError: there are no translations.
    """
    text = hypotheses_file(folder, test_set).read_bytes().decode("utf-8")  # read_text would turn "\\r" into a line end
    return text.split("\n")[:-1]
