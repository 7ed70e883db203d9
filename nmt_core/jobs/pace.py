"""How quickly a job goes on, and how long it will take."""

import time
from collections.abc import Callable

Progress = Callable[[float, float, str], None]
"""Is told: rows that are done, all rows (0: not known yet), and a note such as "812 lines/s, 0:04:10 left"."""


def silence(done: float, total: float, note: str) -> None:
    """Progress that nobody wants to know."""


class Pace:
    """Rows per second since the attempt began, by all workers of the job as far as it sees them, and the time left.

    Args:
        total: rows of the job.
        done: those that were done before.
        progress: whom to tell.
    """

    def __init__(self, total: int, done: int, progress: Progress) -> None:
        self._total = total
        self._done = done
        self._before = done
        self._progress = progress
        self._start = time.monotonic()

    def add(self, lines: int) -> None:
        """So many more are done."""
        self._done += lines
        seconds = max(time.monotonic() - self._start, 1e-3)
        rate = (self._done - self._before) / seconds
        left = int((self._total - self._done) / rate)
        note = f"{rate:,.0f} lines/s, {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left"
        self._progress(self._done, self._total, note)
