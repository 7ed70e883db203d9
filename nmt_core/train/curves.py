"""What training tells: points of its curves, and messages."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


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

    A full disk costs no training: what cannot be written waits for room.

    Args:
        file: the first process' file; None: this is not the first, and tells nothing.
    """

    def __init__(self, file: Path | None) -> None:
        self._path = file
        self._whole_bytes = file.stat().st_size if file and file.exists() else 0
        self._waiting = b""

    def point(self, values: Mapping[str, float]) -> None:
        """See `Listener.point`."""
        line = json.dumps(values)
        self.say(line)
        if not self._path:
            return
        first_to_wait, self._waiting = not self._waiting, self._waiting + f"{line}\n".encode()
        try:
            with self._path.open("ab") as file:
                file.truncate(self._whole_bytes)  # a line may have been cut off by the end of the disk
                file.write(self._waiting)
        except OSError as error:
            if first_to_wait:
                self.say(f"{self._path} cannot be written ({error}): free space; its lines wait until there is some")
            return
        self._whole_bytes += len(self._waiting)
        self._waiting = b""

    def say(self, message: str) -> None:
        """See `Listener.say`."""
        if self._path:
            sys.stdout.write(f"{message}\n")
            sys.stdout.flush()

    def go_back(self, update: int) -> None:
        """See `Listener.go_back`."""
        if self._path and self._path.exists():
            lines = [*self._path.read_bytes().splitlines(keepends=True), *self._waiting.splitlines(keepends=True)]
            kept = [line for line in lines if line.endswith(b"\n") and json.loads(line)["update"] <= update]
            draft = self._path.with_suffix(".partial")
            draft.write_bytes(b"".join(kept))
            draft.replace(self._path)
            self._whole_bytes, self._waiting = self._path.stat().st_size, b""
