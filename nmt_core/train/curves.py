"""What training tells: points of its curves, and messages."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from nmt_core.train.lines import Lines

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
