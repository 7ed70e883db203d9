"""What a reader is told: which files hold the text, and what to look for in them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FileSide = Literal["both", "source", "target"]
"""Which side of the sentence pairs a file holds."""


@dataclass(frozen=True)
class TextFile:
    """A file, and which side of the corpus it holds.

    `member` is a glob for the members of an archive; empty: those that fit the side.
    """

    path: Path
    side: FileSide
    member: str = ""


@dataclass(frozen=True)
class Layout:
    """Languages of the corpus, columns of a table (name, or number from 1; empty: found by itself), longest line."""

    source_language: str
    target_language: str
    source_column: str = ""
    target_column: str = ""
    max_line_bytes: int = 100_000
