"""Wait as long as a busy machine needs, and no longer.

No test asserts how many seconds something took. A test waits `until` a condition holds, which must become true. The
deadline exists only so that a test that would wait forever fails. It grows with the load of the machine.
"""

import os
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import psutil

from nmt_core.execution.cpus import usable_cpus

Result = TypeVar("Result")

SECONDS = 180.0
"""Patience on an idle machine."""
_CPUS = usable_cpus()


def load() -> float:
    """Return how many processes share a processor, 1 or more."""
    return max(1.0, os.getloadavg()[0] / _CPUS)


def patient(seconds: float) -> float:
    """Return a timeout for a call that takes a number: twice as many seconds on an idle machine, more on a busy one."""
    return seconds * 2 * load()


def until(
    condition: Callable[[], Result],
    failing: Callable[[], object] | str = "",
    seconds: float = SECONDS,
    every: float = 0.02,
) -> Result:
    """Return the first true value of the condition.

    Args:
        condition: called again and again. An exception of it ends the waiting.
        failing: message if it never holds.
        seconds: patience on an idle machine. It is spent more slowly while the machine is busy, or this process
            gets no processor.
        every: seconds between two calls.
    """
    last = time.monotonic()
    while not (found := condition()):
        asleep = time.monotonic()
        time.sleep(every)
        now = time.monotonic()
        seconds -= (now - last) / max(load(), (now - asleep) / every)
        last = now
        assert seconds > 0, failing() if callable(failing) else failing or "waited without success"
    return found


def until_gone(processes: Iterable[psutil.Process], failing: str = "these live on") -> None:
    """Return when none of the processes runs any more."""
    family = list(processes)
    until(lambda: not any(map(runs, family)), lambda: f"{failing}: {list(filter(runs, family))}")


def runs(process: psutil.Process) -> bool:
    """Return True if a process is running. A zombie does not count, because it may have no parent that reaps it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command_line(process: psutil.Process) -> list[str]:
    """Return the words of a command line. A process that ends at this moment has none."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
