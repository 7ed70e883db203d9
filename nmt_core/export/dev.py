"""Read the dev set: text that the model was not trained on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars

from nmt_core.errors import DataError, counted, words_of


@dataclass(frozen=True)
class Dev:
    """Sources and references of the dev set. There may be no references."""

    sources: Sequence[str]
    references: Sequence[str]
    pairs: Sequence[str] = ()
    """Pair of languages of each line. Empty means the only pair of the recipe."""

    @classmethod
    def read(cls, split: Path) -> "Dev":
        """Read the dev set from the folder of the artifact `split`."""
        file = json.loads((split / "splits.json").read_text(encoding="utf-8"))["dev"]
        rows = polars.read_parquet(split / file, glob=False)
        return cls(
            rows["source"].to_list(), rows["target"].to_list(), rows["pair"].to_list() if "pair" in rows.columns else ()
        )

    def in_pair(self, pair: str) -> "Dev":
        """Return the lines of one pair of languages, or all if there is only one pair."""
        places = [place for place, own in enumerate(self.pairs) if own == pair]
        return self._of(places) if self.pairs else self

    @classmethod
    def of_files(cls, sources: Path, references: Path | None = None) -> "Dev":
        """Read a file of sentences and a file of their translations, one a line.

        Raises:
            DataError: a file cannot be read, or they differ in their number of lines.
        """
        lines = [_lines(file) for file in (sources, references) if file]
        if references and len(lines[0]) != len(lines[1]):
            raise DataError(
                f"{references}: has {counted(len(lines[1]), 'line')}, and {sources} {len(lines[0]):,}: give one "
                "translation for each sentence"
            )
        return cls(lines[0], lines[1] if references else ())

    def spread(self, count: int) -> "Dev":
        """Return `count` lines of it, at even distances. See the function `spread`."""
        return self._of(spread(count, len(self.sources)))

    def _of(self, places: Sequence[int]) -> "Dev":
        pairs = [self.pairs[place] for place in places] if self.pairs else ()
        return Dev([self.sources[place] for place in places], [self.references[place] for place in places], pairs)


def _lines(file: Path) -> list[str]:
    try:
        text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read ({words_of(error)}): name a text file in UTF-8") from None
    return text.removesuffix("\n").split("\n") if text else []


def spread(count: int, lines: int) -> list[int]:
    """Return the indices of `count` lines of a text, at even distances, or of all its lines if there are fewer.

    A text may hold several sets one after the other. Even distances give each set its share.
    """
    count = min(count, lines)
    return [number * lines // count for number in range(count)]
