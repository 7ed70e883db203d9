"""Report the speed of a job and the time that is left."""

import time
from collections.abc import Callable

Progress = Callable[[float, float, str], None]
"""Callback that gets the number of finished rows, the number of all rows (0 if unknown) and a note such as
"812 lines/s, 0:04:10 left"."""


def silence(done: float, total: float, note: str) -> None:
    """Ignore progress."""


class Pace:
    """Speed of a job in rows per second, over all workers whose chunks this attempt has seen, and the time left.

    Args:
        total: number of rows of the job.
        done: number of rows that were done before this attempt.
        progress: called after each chunk.
    """

    def __init__(self, total: int, done: int, progress: Progress) -> None:
        self._total = total
        self._done = done
        self._before = done
        self._progress = progress
        self._start = time.monotonic()

    def add(self, lines: int) -> None:
        """Count more rows as done, and report progress."""
        self._done += lines
        seconds = max(time.monotonic() - self._start, 1e-3)
        rate = (self._done - self._before) / seconds
        left = int((self._total - self._done) / rate)
        note = f"{rate:,.0f} lines/s, {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left"
        self._progress(self._done, self._total, note)
