"""Report training: points of its curves, and messages."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Protocol

METRICS = "metrics.jsonl"
"""Name of the file of the points, in the folder of a run."""
LOG_EVERY = 25
"""Updates between two points of the curves."""


class Listener(Protocol):
    """Receiver of the points and messages of a training."""

    def point(self, values: Mapping[str, float]) -> None:
        """Receive a point of the curves: `update`, and values by name."""

    def say(self, message: str) -> None:
        """Receive a message for the user."""

    def go_back(self, update: int) -> None:
        """Forget the points after this update: training resumes from it."""


class Lines:
    """Lines at the end of a file. On a full disk, lines wait in memory for the next attempt to write.

    Args:
        file: file, which may exist. An incomplete last line is removed.
        say: receives a message when lines begin to wait.
    """

    def __init__(self, file: Path, say: Callable[[str], None]) -> None:
        self._file = file
        self._say = say
        self._waiting = b""
        self._whole_bytes = self._read().rfind(b"\n") + 1

    def append(self, line: str) -> None:
        """Write the lines that wait, and one more."""
        first_to_wait, self._waiting = not self._waiting, self._waiting + f"{line}\n".encode()
        if (problem := self._write()) and first_to_wait:
            self._say(f"{self._file} cannot be written ({problem}): free space. Until then its lines wait in memory.")

    def try_again(self) -> None:
        """Write the lines that wait, if there is room now."""
        if self._waiting:
            self._write()

    def _write(self) -> OSError | None:
        try:
            with self._file.open("ab") as file:
                file.truncate(self._whole_bytes)  # a full disk may have cut a line off
                file.write(self._waiting)
        except OSError as error:
            return error
        self._whole_bytes += len(self._waiting)
        self._waiting = b""
        return None

    def keep_while(self, is_kept: Callable[[bytes], bool]) -> None:
        """Remove the first line for which `is_kept` returns False, and all lines after it. This needs no disk space."""
        lines = (self._read()[: self._whole_bytes] + self._waiting).splitlines(keepends=True)
        kept = sum(map(len, takewhile(is_kept, lines)))
        self._waiting = self._waiting[: max(0, kept - self._whole_bytes)]
        self._whole_bytes = min(kept, self._whole_bytes)
        with suppress(OSError):  # the next append truncates too
            os.truncate(self._file, self._whole_bytes)

    def _read(self) -> bytes:
        return self._file.read_bytes() if self._file.exists() else b""


class Curves:
    """Listener that writes points to a file and to standard output, one JSON object a line, and prints messages.

    A full disk does not stop training, see `Lines`.

    Args:
        file: file of the first process. None in other processes, which write nothing.
    """

    def __init__(self, file: Path | None) -> None:
        self._lines = Lines(file, self.say) if file else None

    def point(self, values: Mapping[str, float]) -> None:
        """Write a point, see `Listener.point`."""
        line = json.dumps(values)
        self.say(line)
        if self._lines:
            self._lines.append(line)

    def say(self, message: str) -> None:
        """Print a message, see `Listener.say`."""
        if self._lines:
            sys.stdout.write(f"{message}\n")
            sys.stdout.flush()

    def go_back(self, update: int) -> None:
        """Remove the points after an update, see `Listener.go_back`."""
        if self._lines:
            self._lines.keep_while(lambda line: json.loads(line)["update"] <= update)
