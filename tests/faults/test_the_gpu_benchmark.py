"""The benchmark for a GPU runs unattended: here on a CPU, with the smallest sizes, where its figures mean nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nmt_core

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
SCRIPT = Path(nmt_core.__file__).parent.parent / "tests" / "bench" / "h200.sh"


def test_all_its_sections_run(tmp_path: Path) -> None:
    command = [SCRIPT, "--device", "cpu", "--tiny", "--limit", "600"]
    own = {name: value for name, value in os.environ.items() if name not in ("MODEL", "WHEELS")}
    settings = {"OUT": str(tmp_path), "PYTHON": sys.executable, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, env=own | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sections = json.loads((tmp_path / "h200.json").read_text())
    assert [name for name, found in sections.items() if "error" in found or "skipped" in found] == []
    checks = {name: found["ok"] for name, found in sections.items() if name.startswith("check: ")}
    assert len(checks) == 5
    assert all(checks.values())
    trained = [found for found in sections.values() if "target tokens per second" in found]
    assert len(trained) == 8
    assert all(found["target tokens per second"] > 0 for found in trained)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h200.json", "h200.log"], "nothing else is left"
