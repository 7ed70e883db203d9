"""Memory that this process may still take: what the machine has free, and what the limit of its container leaves."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from nmt_core.execution.cpus import control_groups

_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of the limit and the use of a group in both versions of control groups, and its entry of pages that can go."""


@dataclass(frozen=True)
class FreeMemory:
    """Memory that can still be used."""

    bytes: int
    limit: int | None
    """Limit of the container in bytes if it leaves less than the machine has free, else None."""


def free_memory(proc: Path = Path("/proc/self"), available: int | None = None) -> FreeMemory:
    """Return the memory that this process and its children can still take.

    Args:
        proc: folder in which Linux describes this process.
        available: memory in bytes that the machine has available. None reads it from the system.
    """
    free = FreeMemory(psutil.virtual_memory().available if available is None else available, None)
    for folder in control_groups("memory", proc):
        for limit, left in _left_in(folder):
            if left < free.bytes:
                free = FreeMemory(left, limit)
    return free


def _left_in(folder: Path) -> Iterator[tuple[int, int]]:
    """Yield the limit of one group, if it has one, and the memory that it leaves."""
    for limit_file, use_file, entry in _FILES:
        try:
            limit, used = ((folder / name).read_text(encoding="ascii").strip() for name in (limit_file, use_file))
            if not limit.isdigit():  # "max"
                continue
            entries = dict(line.split(" ", 1) for line in (folder / "memory.stat").read_text("ascii").splitlines())
            cached = int(
                entries.get(entry, 0)
            )  # pages of files, which the system frees for a program that needs memory
        except (OSError, ValueError):  # the other version, or a group without the controller
            continue
        yield int(limit), max(0, int(limit) - max(0, int(used) - cached))
