"""Describe the files of a corpus to the reader: paths, sides, languages and columns."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

FileSide = Literal["both", "source", "target"]
"""Side of the sentence pairs that a file holds."""

BLANK_LINES = "blank_lines"
"""Value of `Layout.documents`: a line that is blank on both sides ends a document."""


@dataclass(frozen=True)
class TextFile:
    """A file and the side of the corpus that it holds.

    `member` is a glob that selects members of an archive. If it is empty, the language of the side selects them.
    """

    path: Path
    side: FileSide
    member: str = ""


def _ignore(_: str) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Layout:
    """Languages of the corpus, columns of a table, and the longest line in bytes.

    A language is a tag, such as `de` or `zh_Hant`. A column is a name, or a number counted from 1. If it is empty, the
    reader detects the column.
    """

    source_language: str
    target_language: str
    source_column: str = ""
    target_column: str = ""
    max_line_bytes: int = 100_000
    encoding: str = ""
    """Charset of the files. Empty means the one that a file shows or declares, or else UTF-8."""
    documents: str = ""
    """Way in which documents are told apart: `blank_lines`, or the column that holds their names. Empty means none."""
    note: Callable[[str], None] = field(default=_ignore, compare=False)
    """Function that gets what a user should know about how a file was read, once for each file."""

    @property
    def document_column(self) -> str:
        """Column that holds the names of documents. Empty means none."""
        return "" if self.documents == BLANK_LINES else self.documents
