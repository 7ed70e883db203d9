"""Print the packages that a target of the Dockerfile needs, one a line, as pip reads them.

    python requirements.py cpu < pyproject.toml

The packages are listed in pyproject.toml, so that the image has no list of its own. Only ONNX Runtime differs: its
build for GPUs carries 270 MB of CUDA code, so the target cpu has the build for CPUs, in the version of the lock.
"""

import re
import sys
import tomllib
from pathlib import Path

EXTRAS = {"cpu": ("s3", "gs", "postgres", "k8s"), "gpu": ("s3", "gs", "postgres", "k8s", "gpu")}
"""Extras of this package in the images that train."""

SERVE = ("mlflow-skinny", "pandas", "fastapi", "uvicorn", "numpy", "onnxruntime", "pydantic", "sentencepiece")
"""Packages of the image that only translates: an exported model, and the server that MLflow has for models."""


def packages(target: str, project: dict[str, object], lock: str) -> list[str]:
    """Return the packages of a target."""
    onnxruntime = _locked("onnxruntime", lock)
    if target == "serve":
        return [onnxruntime if name == "onnxruntime" else name for name in SERVE]
    needed = [*project["dependencies"]]  # type: ignore[misc]
    for extra in EXTRAS[target]:
        needed += project["optional-dependencies"][extra]  # type: ignore[index]
    if target == "cpu":
        needed = [onnxruntime, *(line for line in needed if not line.startswith("onnxruntime"))]
    return needed


def _locked(name: str, lock: str) -> str:
    """Return a package with its version in the lock. The lock may name it for other machines only."""
    found = re.search(rf"^{name}==\S+", lock, re.MULTILINE)
    if not found:
        sys.exit(f"requirements.lock: has no line for {name}: renew it with `make lock`")
    return found[0]


if __name__ == "__main__":
    described = tomllib.load(sys.stdin.buffer)["project"]
    print("\n".join(packages(sys.argv[1], described, Path("requirements.lock").read_text(encoding="utf-8"))))
