"""The benchmark for a GPU runs unattended: here on a CPU, with the smallest sizes, where its figures mean nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import save_model

import nmt_core
from nmt_core.models.transformer import Transformer

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]
SCRIPT = Path(nmt_core.__file__).parent.parent / "tests" / "bench" / "gpu.sh"
LINES = [f"{who} {what}." for who in ("the cat", "a big house", "now it") for what in ("sees a dog", "runs", "is to")]


def run(out: Path, limit: int, **settings: str) -> subprocess.CompletedProcess[str]:
    """The benchmark on a CPU, its training for so many seconds."""
    command = [SCRIPT, "--device", "cpu", "--tiny", "--limit", str(limit)]
    own = {name: value for name, value in os.environ.items() if name not in ("MODEL", "MODEL_LIMIT", "WHEELS")}
    settings |= {"OUT": str(out), "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=own | settings, capture_output=True, text=True, check=False)


def test_all_its_sections_run(tmp_path: Path) -> None:
    done = run(tmp_path, 1_500)
    assert done.returncode == 0, done.stdout + done.stderr
    sections = json.loads((tmp_path / "gpu.json").read_text())
    assert [name for name, found in sections.items() if "error" in found or "skipped" in found] == []
    checks = {name: found["ok"] for name, found in sections.items() if name.startswith("check: ")}
    assert len(checks) == 7
    assert all(checks.values())
    trained = [found for found in sections.values() if "target tokens per second" in found]
    assert len(trained) == 4
    assert all(found["target tokens per second"] > 0 for found in trained)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu.json", "gpu.log"], "nothing else is left"


@pytest.fixture
def model(tmp_path: Path, tiny_model: Transformer, tiny_bundle: Path) -> Path:
    """What MODEL is to name."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_bundle, folder / "export")
    save_model(tiny_model, str(folder / "model.safetensors"))
    for name in ("dev.source", "dev.target", "test.source", "test.target"):
        (folder / name).write_text("".join(f"{line}\n" for line in LINES))
    return folder


def test_translation_in_half_precision_is_compared(tmp_path: Path, model: Path) -> None:
    done = run(tmp_path / "out", 0, MODEL=str(model))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "out" / "grown.log").read_text())["not_published"] == {}
    cells = [line.split(" | ") for line in (tmp_path / "out" / "translate.log").read_text().splitlines()]
    rows = {(row[1], row[2], row[3]): row for row in cells if len(row) == 12}
    for beam in ("4", "1"):
        assert float(rows["fp16", beam, "ours"][5].replace(",", "")) > 0
        assert float(rows["fp32", beam, "PyTorch eager"][7]) > 0, "how many times as fast ours is"
        assert rows["fp32", beam, "PyTorch eager"][10] == "100.00%"
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["gpu.json", "gpu.log", "grown.log", "translate.log"], "nothing else is left"


def test_a_comparison_that_takes_too_long_is_ended(tmp_path: Path, model: Path) -> None:
    assert run(tmp_path / "out", 0, MODEL=str(model), MODEL_LIMIT="1").returncode == 124
    assert not (tmp_path / "out" / "scratch").exists()
