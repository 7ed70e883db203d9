"""The registered model where it will be used: with mlflow, numpy, onnxruntime and sentencepiece, and nothing else."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REQUIREMENTS = {"mlflow", "numpy", "sentencepiece", "pydantic", "onnxruntime"}


def distributions(names: list[str]) -> dict[str, importlib.metadata.Distribution]:
    """The named distributions with all that they require, as far as installed."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        for requirement in found[name].requires or []:
            if "extra ==" not in requirement:
                waiting.append(re.split(r"[^A-Za-z0-9._-]", requirement)[0])
    return found


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site-packages with only what the model's requirements name."""
    folder = tmp_path_factory.mktemp("site")
    for distribution in distributions([*REQUIREMENTS, "onnxruntime-gpu"]).values():
        for top in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(distribution.locate_file(top))
    return folder


def test_the_champion_translates_where_only_its_requirements_are_installed(
    finished: tuple[Any, dict[str, Any]], site: Path, tmp_path: Path
) -> None:
    nmt, _ = finished
    code = f"""
import sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path and path] + [{str(site)!r}]
import mlflow
mlflow.set_tracking_uri("sqlite:///{nmt.home / "mlflow.db"}")
model = mlflow.pyfunc.load_model("models:/quickstart@champion")
lines = model.predict(["I am a student.", "", "The cat sleeps."])
import json, nmt_core
heavy = {{"torch", "prefect", "polars", "flows", "filelock"}} & set(sys.modules)
print(json.dumps([list(lines), nmt_core.__file__, sorted(heavy)]))
"""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MLFLOW_DISABLE_TELEMETRY": "true"}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines, package, heavy = json.loads(done.stdout.splitlines()[-1])
    assert len(lines) == 3
    assert all(isinstance(line, str) for line in lines)
    assert lines[1] == ""
    assert str(nmt.home) in package, "the code comes with the model"
    assert heavy == []


def test_the_model_says_what_it_needs_and_where_it_comes_from(finished: tuple[Any, dict[str, Any]]) -> None:
    nmt, summary = finished
    folder = next(nmt.home.glob("mlflow/**/MLmodel")).parent
    requirements = (folder / "requirements.txt").read_text().split()
    assert {line.split("==")[0] for line in requirements} == REQUIREMENTS
    assert all("==" in line for line in requirements)
    assert {path.name for path in (folder / "artifacts" / "bundle").iterdir()} == {
        "encoder.onnx",
        "step.onnx",
        "spm.model",
        "config.json",
        "search.json",
    }
    of_first = "select key, value from model_version_tags where version = 1 and name = 'quickstart'"
    tags = dict(nmt.select("mlflow.db", of_first))
    fingerprints = {stage["name"]: stage["fingerprint"] for stage in summary["stages"]}
    assert tags["nmt.export"] == fingerprints["export"]
    assert tags["nmt.evaluate"] == fingerprints["evaluate"]
    assert (tags["nmt.average"], tags["nmt.tokenizer"]) == (fingerprints["average"], fingerprints["tokenizer"])
    assert float(tags["nmt.score"]) == pytest.approx(summary["metrics"][0]["score"], abs=1e-3)
    assert tags["prefect.flow_run_id"] == summary["prefect_flow_run_id"]
