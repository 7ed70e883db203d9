"""What training tells: points of its curves, and messages."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Protocol

METRICS = "metrics.jsonl"
"""File of the points, in the folder of a run."""
LOG_EVERY = 25
"""Updates between two points of the curves."""


class Listener(Protocol):
    """Hears how training goes."""

    def point(self, values: Mapping[str, float]) -> None:
        """A point of the curves: `update` and values by name."""

    def say(self, message: str) -> None:
        """Something that a person should know."""

    def go_back(self, update: int) -> None:
        """Training is taken up again after this update: what was told of later ones did not happen."""


class Lines:
    """Lines at the end of a file.

    Args:
        file: may be there; what follows its last whole line goes.
        say: told when lines begin to wait.
    """

    def __init__(self, file: Path, say: Callable[[str], None]) -> None:
        self._file = file
        self._say = say
        self._waiting = b""
        self._whole_bytes = self._read().rfind(b"\n") + 1

    def append(self, line: str) -> None:
        """Write one more line, and those that have waited."""
        first_to_wait, self._waiting = not self._waiting, self._waiting + f"{line}\n".encode()
        if (problem := self._write()) and first_to_wait:
            self._say(f"{self._file} cannot be written ({problem}): free space; its lines wait until there is some")

    def try_again(self) -> None:
        """Write those that have waited, if there is room now."""
        if self._waiting:
            self._write()

    def _write(self) -> OSError | None:
        try:
            with self._file.open("ab") as file:
                file.truncate(self._whole_bytes)  # a line may have been cut off by the end of the disk
                file.write(self._waiting)
        except OSError as error:
            return error
        self._whole_bytes += len(self._waiting)
        self._waiting = b""
        return None

    def keep_while(self, is_kept: Callable[[bytes], bool]) -> None:
        """Forget all lines from the first one on that is not to be kept. Needs no room."""
        lines = (self._read()[: self._whole_bytes] + self._waiting).splitlines(keepends=True)
        kept = sum(map(len, takewhile(is_kept, lines)))
        self._waiting = self._waiting[: max(0, kept - self._whole_bytes)]
        self._whole_bytes = min(kept, self._whole_bytes)
        with suppress(OSError):  # the next line will cut it
            os.truncate(self._file, self._whole_bytes)

    def _read(self) -> bytes:
        return self._file.read_bytes() if self._file.exists() else b""


class Curves:
    """Points in a file and on standard output, one JSON object a line; messages on standard output.

    A full disk costs no training, see `Lines`.

    Args:
        file: the first process' file; None: this is not the first, and tells nothing.
    """

    def __init__(self, file: Path | None) -> None:
        self._lines = Lines(file, self.say) if file else None

    def point(self, values: Mapping[str, float]) -> None:
        """See `Listener.point`."""
        line = json.dumps(values)
        self.say(line)
        if self._lines:
            self._lines.append(line)

    def say(self, message: str) -> None:
        """See `Listener.say`."""
        if self._lines:
            sys.stdout.write(f"{message}\n")
            sys.stdout.flush()

    def go_back(self, update: int) -> None:
        """See `Listener.go_back`."""
        if self._lines:
            self._lines.keep_while(lambda line: json.loads(line)["update"] <= update)
