"""What training tells: points of its curves, and messages."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Protocol


class Listener(Protocol):
    """Hears how training goes."""

    def point(self, values: Mapping[str, float]) -> None:
        """A point of the curves: `update` and values by name."""

    def say(self, message: str) -> None:
        """Something that a person should know."""

    def go_back(self, update: int) -> None:
        """Training is taken up again after this update: what was told of later ones did not happen."""


class Curves:
    """Points in a file and on standard output, one JSON object a line; messages on standard output.

    Args:
        file: the first process' file; None: this is not the first, and tells nothing.
    """

    def __init__(self, file: Path | None) -> None:
        self._path = file
        self._file: IO[str] | None = None

    def point(self, values: Mapping[str, float]) -> None:
        """See `Listener.point`."""
        if self._path:
            self._file = self._file or self._path.open("a", buffering=1)
            line = json.dumps(values)
            self._file.write(f"{line}\n")
            self.say(line)

    def say(self, message: str) -> None:
        """See `Listener.say`."""
        if self._path:
            sys.stdout.write(f"{message}\n")
            sys.stdout.flush()

    def go_back(self, update: int) -> None:
        """See `Listener.go_back`."""
        if self._path and self._path.exists():
            lines = self._path.read_text().splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["update"] <= update]
            if self._file:
                self._file.close()
                self._file = None
            self._path.write_text("".join(kept))
