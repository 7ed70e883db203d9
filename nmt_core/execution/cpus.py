"""Number of CPUs that this process may use: its affinity, and the quota of its container.

A container with a quota of two CPUs sees all cores of its host. As many threads as cores would be stopped for most of
each period, which takes longer than two threads do. Only the standard library is imported: registered models carry this
module.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path


def usable_cpus(proc: Path = Path("/proc/self")) -> int:
    """Return the number of CPUs that this process may use, at least 1.

    A quota is rounded up, so that all of it can be used. macOS reports neither affinity nor quota, so there it is the
    number of all CPUs.

    Args:
        proc: folder in which Linux describes this process.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in _quotas(proc))]))


def _quotas(proc: Path) -> Iterator[float]:
    """Yield the CPU quotas of this process's control groups and of the groups that contain them, in CPUs."""
    for folder in control_groups("cpu", proc):
        yield from _quota_in(folder)


def control_groups(controller: str, proc: Path = Path("/proc/self")) -> Iterator[Path]:
    """Yield the folders of this process's control groups and of the groups that contain them. Other systems have none.

    Args:
        controller: name of the controller in version 1 of control groups, such as "cpu" or "memory".
        proc: folder in which Linux describes this process.
    """
    try:
        mounts = (proc / "mountinfo").read_text(encoding="utf-8").splitlines()
        groups = [line.split(":", 2) for line in (proc / "cgroup").read_text(encoding="utf-8").splitlines()]
    except OSError:  # not Linux
        return
    paths = {name: path for _, names, path in groups for name in names.split(",")}
    for line in mounts:
        fields, _, described = line.partition(" - ")
        _, _, _, root, mounted, *_ = fields.split(" ")
        kind, _, options = described.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and controller in options.split(",")):
            own = paths.get("" if kind == "cgroup2" else controller, root)
            yield from _with_parents(Path(mounted), Path(root), Path(own))


def _with_parents(mounted: Path, root: Path, own: Path) -> Iterator[Path]:
    """Yield the folder of a group and the folders above it, up to where the tree of groups is mounted.

    Args:
        mounted: folder in which the tree is mounted.
        root: group that this folder shows. In a container, this is often the container's own group.
        own: group of this process.
    """
    below = own.relative_to(root) if own.is_relative_to(root) else Path()
    for part in [below, *below.parents]:
        yield mounted / part


def _quota_in(folder: Path) -> Iterator[float]:
    """Yield the quota of one group, if it has one."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):  # version 2 and version 1
        try:
            quota, period = " ".join((folder / name).read_text(encoding="ascii") for name in names).split()
        except (OSError, ValueError):  # the other version, or a group without the controller
            continue
        if quota not in ("max", "-1") and int(period):
            yield int(quota) / int(period)
