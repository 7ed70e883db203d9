"""Memory that the limits of containers leave, in the files that Linux shows for both versions of control groups."""

from pathlib import Path

import pytest

from nmt_core.execution.memory import FreeMemory, free_memory

GB = 10**9


def described(folder: Path, kind: str, own: str, files: dict[str, str]) -> Path:
    """Return a folder like /proc/self, for groups whose tree is mounted below the same folder."""
    mounted, proc = folder / "mounted", folder / "self"
    proc.mkdir()
    options = "rw" if kind == "cgroup2" else "rw,memory"
    (proc / "mountinfo").write_text(f"91 89 0:29 / {mounted} ro - {kind} cgroup {options}\n")
    (proc / "cgroup").write_text(f"0::{own}\n" if kind == "cgroup2" else f"9:memory:{own}\n1:cpu:/other\n0::/\n")
    for name, text in files.items():
        (mounted / name).parent.mkdir(parents=True, exist_ok=True)
        (mounted / name).write_text(f"{text}\n")
    return proc


def version_2(limit: str, used: int, inactive: int, group: str = "") -> dict[str, str]:
    stat = f"anon {used - inactive}\ninactive_file {inactive}"
    return {f"{group}memory.max": limit, f"{group}memory.current": str(used), f"{group}memory.stat": stat}


@pytest.mark.parametrize(
    ("kind", "own", "files", "free"),
    [
        ("cgroup2", "/", version_2(f"{4 * GB}", 3 * GB, GB), FreeMemory(2 * GB, 4 * GB)),  # pages of files can go
        ("cgroup2", "/", version_2("max", 3 * GB, GB), FreeMemory(8 * GB, None)),
        ("cgroup2", "/", {}, FreeMemory(8 * GB, None)),  # the root group has no such file
        ("cgroup2", "/", version_2(f"{90 * GB}", 3 * GB, 0), FreeMemory(8 * GB, None)),  # more than the machine has
        (
            "cgroup2",
            "/a/b",
            version_2("max", GB, 0, "a/b/") | version_2(f"{3 * GB}", GB, 0, "a/"),
            FreeMemory(2 * GB, 3 * GB),
        ),
        ("cgroup2", "/", version_2(f"{GB}", 2 * GB, 0), FreeMemory(0, GB)),  # the limit was lowered
        (
            "cgroup",
            "/pod",
            {
                "pod/memory.limit_in_bytes": f"{5 * GB}",
                "pod/memory.usage_in_bytes": f"{2 * GB}",
                "pod/memory.stat": f"inactive_file 7\ntotal_inactive_file {GB}",
            },
            FreeMemory(4 * GB, 5 * GB),
        ),
    ],
)
def test_a_limit_bounds_the_free_memory(
    tmp_path: Path, kind: str, own: str, files: dict[str, str], free: FreeMemory
) -> None:
    assert free_memory(described(tmp_path, kind, own, files), available=8 * GB) == free


def test_without_groups_all_available_memory_is_free(tmp_path: Path) -> None:
    assert free_memory(tmp_path / "missing", available=GB) == FreeMemory(GB, None)
    assert free_memory().bytes > 0
