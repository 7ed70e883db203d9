"""Read the test sets of a split and their translations.

The hash of a test set's text shows if older translations are of the same text, and can be compared.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars

from nmt_core.config import LanguagesConfig
from nmt_core.config.language_codes import canonical


@dataclass(frozen=True)
class TestSet:
    """Test set: sentences to translate, with their reference translations."""

    __test__ = False  # otherwise pytest collects it as a class of tests

    name: str
    sources: list[str]
    references: list[str]
    pair: str = ""
    """Pair of languages, such as en-de. Empty means the only pair of the recipe."""
    zero_shot: bool = False
    """True if the model was trained on both languages, but not on this pair."""

    def languages(self, languages: LanguagesConfig) -> LanguagesConfig:
        """Return the source and the target language, given the languages of the recipe."""
        return languages.of(self.pair) if self.pair else languages

    def target_language(self, main: str) -> str:
        """Return the ISO 639 code of the target language, given the main one of the recipe."""
        return canonical(self.pair.split("-")[1]) if self.pair else main

    @property
    def sha256(self) -> str:
        """Hash of the text, which does not depend on the file that holds it."""
        text = json.dumps([self.sources, self.references], ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def swapped(self) -> "TestSet":
        """Return this test set for the other direction."""
        return replace(self, sources=self.references, references=self.sources)


def read_test_sets(split: Path) -> list[TestSet]:
    """Return the test sets of a split, the main one first."""
    content = json.loads((split / "splits.json").read_text(encoding="utf-8"))
    of_pairs, unseen = content.get("pairs", {}), content.get("zero_shot", ())
    test_sets = []
    for name, file in content["tests"].items():
        pairs = polars.read_parquet(split / file, columns=["source", "target"], glob=False)
        text = pairs["source"].to_list(), pairs["target"].to_list()
        test_sets.append(TestSet(name, *text, of_pairs.get(name, ""), name in unseen))
    return test_sets


def main_sets(tests: Sequence[TestSet]) -> list[TestSet]:
    """Return the main test set, or the first test set of each pair of languages that was trained on."""
    trained = [test for test in tests if not test.zero_shot]
    return list({test.pair: test for test in reversed(trained)}.values())[::-1]


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
