"""The file beside an output with the bytes of the rows that are not UTF-8: a line of JSON for each of them."""

import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import BinaryIO

import polars as pl

from nmt_core.formats import Kind
from nmt_core.formats.single import has_header
from nmt_core.jobs.inputs import UNREADABLE
from nmt_core.store import storage

Note = Callable[[pl.DataFrame, "Origin"], None]


class Origin:
    """Where rows come from.

    Args:
        file: its name.
        kind: its format.
        column: that was asked for: its number says that a TSV file begins without a header.
        first: rows before them in the file.
    """

    def __init__(self, file: str, kind: Kind, column: str = "", first: int = 0) -> None:
        self.file = file
        self.first = first
        self._is_by_line = kind in (Kind.LINES, Kind.TSV, Kind.JSONL)
        self._lines_above = int(kind is Kind.TSV and has_header(column))

    def place(self, number: int) -> dict[str, int]:
        """Line of the file, from 1, in which a row stands; its number among the rows, where a row may have several
        lines or none.
        """
        row = self.first + number + 1
        return {"line": row + self._lines_above} if self._is_by_line else {"row": row}


@contextlib.contextmanager
def noting(output: str) -> Iterator[Note]:
    """A function that takes rows (`staging.SCHEMA`) and keeps the bytes of those that are not UTF-8.

    The file appears when the block ends well; if there is nothing to keep, that of an earlier output goes.
    """
    url = output + UNREADABLE
    with ExitStack() as stack:
        file: BinaryIO | None = None

        def note(rows: pl.DataFrame, origin: Origin) -> None:
            nonlocal file
            if rows["raw"].null_count() == rows.height:
                return
            file = file or stack.enter_context(storage.published(url))
            for number, raw in enumerate(rows["raw"]):
                if raw is not None:
                    kept = {"file": origin.file} | origin.place(number) | {"base64": base64.b64encode(raw).decode()}
                    file.write(json.dumps(kept).encode() + b"\n")

        yield note
    if file is None:
        storage.remove([url])
