"""Waiting: for as long as it takes a machine that has other work as well, and no longer.

No test asserts how many seconds something took. A test waits `until` something holds, and what it waits for must come:
the deadline is there only so that a test that would wait for ever fails. It grows with the load of the machine.
"""

import os
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import psutil

Result = TypeVar("Result")

SECONDS = 180.0
"""Patience on an idle machine."""


def load() -> float:
    """Return how many processes share a processor, 1 or more."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1.0, os.getloadavg()[0] / processors)


def patient(seconds: float) -> float:
    """Return a timeout for a call that takes a number: twice as many seconds on an idle machine, more on a busy one."""
    return seconds * 2 * load()


def until(
    condition: Callable[[], Result],
    failing: Callable[[], object] | str = "",
    seconds: float = SECONDS,
    every: float = 0.02,
) -> Result:
    """Return what the condition gives as soon as it gives anything.

    Args:
        condition: asked again and again. What it raises ends the waiting.
        failing: what to say if it never holds.
        seconds: patience on an idle machine. While it is busy, or while we get no processor ourselves, patience is
            spent more slowly.
        every: seconds between two looks.
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
    """Return the words of a command line. A process that ends in this moment has none."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
