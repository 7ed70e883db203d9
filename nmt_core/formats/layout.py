"""Describe the files of a corpus to the reader: paths, sides, languages and columns."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FileSide = Literal["both", "source", "target"]
"""Side of the sentence pairs that a file holds."""


@dataclass(frozen=True)
class TextFile:
    """A file and the side of the corpus that it holds.

    `member` is a glob that selects members of an archive. If it is empty, the language of the side selects them.
    """

    path: Path
    side: FileSide
    member: str = ""


@dataclass(frozen=True)
class Layout:
    """Languages of the corpus, columns of a table, and the longest line in bytes.

    A column is a name, or a number counted from 1. If it is empty, the reader detects the column.
    """

    source_language: str
    target_language: str
    source_column: str = ""
    target_column: str = ""
    max_line_bytes: int = 100_000
