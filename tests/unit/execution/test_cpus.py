"""CPU quotas of containers, in the files that Linux shows for both versions of control groups."""

import os
from pathlib import Path

import pytest

from nmt_core.execution.cpus import usable_cpus

MANY = 64


@pytest.fixture(autouse=True)
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process believe that it has as many cores as a large host."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(MANY)), raising=False)


def described(folder: Path, kind: str, root: str, own: str, files: dict[str, str]) -> Path:
    """Return a folder like /proc/self, for groups whose tree is mounted below the same folder."""
    mounted, proc = folder / "mounted", folder / "self"
    proc.mkdir()
    options = "rw" if kind == "cgroup2" else "rw,cpu,cpuacct"
    (proc / "mountinfo").write_text(
        f"23 30 0:22 / /proc rw,nosuid - proc proc rw\n91 89 0:29 {root} {mounted} ro - {kind} cgroup {options}\n"
    )
    (proc / "cgroup").write_text(
        f"0::{own}\n" if kind == "cgroup2" else f"9:memory:/other\n1:cpu,cpuacct:{own}\n0::/\n"
    )
    for name, text in files.items():
        (mounted / name).parent.mkdir(parents=True, exist_ok=True)
        (mounted / name).write_text(f"{text}\n")
    return proc


@pytest.mark.parametrize(
    ("kind", "root", "own", "files", "cpus"),
    [
        ("cgroup2", "/", "/", {"cpu.max": "200000 100000"}, 2),  # a container with a namespace of its own
        ("cgroup2", "/", "/", {"cpu.max": "max 100000"}, MANY),
        ("cgroup2", "/", "/", {}, MANY),  # the root group has no such file
        ("cgroup2", "/", "/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),  # a group above
        ("cgroup2", "/", "/a/b", {"a/b/cpu.max": "150000 100000", "a/cpu.max": "300000 100000"}, 2),  # rounded up
        ("cgroup2", "/a", "/../b", {"cpu.max": "100000 100000"}, 1),  # a process that was moved out of its namespace
        ("cgroup", "/pod/one", "/pod/one", {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"}, 1),
        ("cgroup", "/", "/pod/one", {"pod/cpu.cfs_quota_us": "400000", "pod/cpu.cfs_period_us": "100000"}, 4),
        ("cgroup", "/pod/one", "/pod/one", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, MANY),
        ("cgroup", "/", "/", {"cpu.cfs_quota_us": "9900000", "cpu.cfs_period_us": "100000"}, MANY),  # more than it has
    ],
)
def test_a_quota_bounds_the_cpus(
    tmp_path: Path, kind: str, root: str, own: str, files: dict[str, str], cpus: int
) -> None:
    assert usable_cpus(described(tmp_path, kind, root, own, files)) == cpus


def test_where_linux_describes_no_groups_all_cpus_count(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path / "missing") == MANY


def test_the_affinity_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert usable_cpus(described(tmp_path, "cgroup2", "/", "/", {"cpu.max": "200000 100000"})) == 1
