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

pytestmark = pytest.mark.timeout(1_800)
SCRIPT = Path(nmt_core.__file__).parent.parent / "benchmarks" / "gpu.sh"
LINES = [f"{who} {what}." for who in ("the cat", "a big house", "now it") for what in ("sees a dog", "runs", "is to")]


NOT_COMPILED = ("machine", "matrix", "loss", "base, ddp, not", "base, fsdp, not")


def run(out: Path, limit: int, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmark on a CPU, and let it train for this many seconds."""
    command = [SCRIPT, "--device", "cpu", "--tiny", "--limit", str(limit), *options]
    own = {name: value for name, value in os.environ.items() if name not in ("MODEL", "MODEL_LIMIT", "WHEELS")}
    settings |= {"OUT": str(out), "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=own | settings, capture_output=True, text=True, check=False)


def assert_sections_ran(out: Path, checks: int, trainings: int) -> None:
    """Assert that everything requested ran well, with this many checks and trainings."""
    sections = json.loads((out / "gpu.json").read_text())
    assert [name for name, found in sections.items() if "error" in found or "skipped" in found] == []
    results = {name: found["ok"] for name, found in sections.items() if name.startswith("check: ")}
    assert len(results) == checks
    assert all(results.values())
    trained = [found for found in sections.values() if "target tokens per second" in found]
    assert len(trained) == trainings
    assert all(found["target tokens per second"] > 0 for found in trained)


@pytest.mark.nightly
@pytest.mark.cpu(120)
def test_all_its_sections_run(tmp_path: Path) -> None:
    done = run(tmp_path, 1_500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_sections_ran(tmp_path, checks=8, trainings=4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu.json", "gpu.log"], "nothing else is left"


@pytest.fixture
def model(tmp_path: Path, tiny_model: Transformer, tiny_bundle: Path) -> Path:
    """Folder that MODEL is to name."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_bundle, folder / "export")
    save_model(tiny_model, str(folder / "model.safetensors"))
    for name in ("test.source", "test.target"):
        (folder / name).write_text("".join(f"{line}\n" for line in LINES))
    return folder


@pytest.mark.faults
@pytest.mark.cpu(30)
def test_what_is_not_compiled_runs(tmp_path: Path) -> None:
    """`make nightly` runs the sections that compile as well, and the comparison."""
    checks = [f"check: {name}" for name in ("attention", "residual", "feed-forward", "packed", "20 updates", "FSDP")]
    done = run(tmp_path, 1_500, "--only", *NOT_COMPILED, *checks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_sections_ran(tmp_path, checks=6, trainings=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu.json", "gpu.log"], "nothing else is left"


@pytest.mark.nightly
@pytest.mark.cpu(60)
def test_translation_in_half_precision_is_compared(tmp_path: Path, model: Path) -> None:
    out = tmp_path / "out"
    done = run(out, 0, MODEL=str(model))
    assert done.returncode == 0, done.stdout + done.stderr
    looked_at = json.loads((out / "device.json").read_text())
    assert [name for name, found in looked_at.items() if isinstance(found, dict) and "error" in found] == []
    assert looked_at["agreement"] == 0, "the device is the CPU itself"
    assert max(looked_at["graphs"].values()) == 0 and looked_at["speed, greedy"]["lines"] > 0
    cells = [line.split(" | ") for line in (out / "translate.log").read_text().splitlines()]
    rows = {(row[1], row[2], row[3]): row for row in cells if len(row) == 12}
    for beam in ("4", "1"):
        assert float(rows["fp16", beam, "ours"][5].replace(",", "")) > 0
        assert float(rows["fp32", beam, "PyTorch eager"][7]) > 0, "how many times as fast ours is"
        assert rows["fp32", beam, "PyTorch eager"][10] == "100.00%"
    names = sorted(path.name for path in out.iterdir())
    assert names == ["device.json", "device.log", "gpu.json", "gpu.log", "grown.log", "translate.log"]


@pytest.mark.faults
@pytest.mark.cpu(15)
def test_a_comparison_that_takes_too_long_is_ended(tmp_path: Path, model: Path) -> None:
    assert run(tmp_path / "out", 0, MODEL=str(model), MODEL_LIMIT="1").returncode == 124
    assert not (tmp_path / "out" / "scratch").exists()
