"""Write the bytes of rows that are not UTF-8 to a file beside the output, one line of JSON for each row."""

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
    """Origin of some rows in a file.

    Args:
        file: name of the file.
        kind: format of the file.
        column: column that is translated. A number means that a TSV file has no header.
        first: number of rows of the file before these.
    """

    def __init__(self, file: str, kind: Kind, column: str = "", first: int = 0) -> None:
        self.file = file
        self.first = first
        self._is_by_line = kind in (Kind.LINES, Kind.TSV, Kind.JSONL)
        self._lines_above = int(kind is Kind.TSV and has_header(column))

    def place(self, number: int) -> dict[str, int]:
        """Return the line of a row in the file, counted from 1.

        In formats whose rows need not be lines, return the number of the row, counted from 1.
        """
        row = self.first + number + 1
        return {"line": row + self._lines_above} if self._is_by_line else {"row": row}


@contextlib.contextmanager
def noting(output: str) -> Iterator[Note]:
    """Yield a function that takes rows (`staging.SCHEMA`) and writes down the bytes of rows that are not UTF-8.

    The file is published when the block ends without an error. If there is nothing to write, the file of an earlier
    output is removed.
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
