"""The layers that `nmt_core/__init__.py` shows are those that `make check` enforces, and slow libraries stay out."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import nmt_core

ROOT = Path(nmt_core.__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_layers_match_the_package() -> None:
    """`make check` holds the imports to the layers of pyproject.toml. The docstring shows them to readers."""
    contract = PROJECT["tool"]["importlinter"]["contracts"][0]
    declared = [{name.strip() for name in layer.split(":")} for layer in reversed(contract["layers"])]
    _, _, listed = (nmt_core.__doc__ or "").partition("declares:")
    shown = [set(names.split(", ")) for names in re.findall(r"^    (\S.*?)  ", listed, re.MULTILINE)]
    assert shown == declared


def import_without(module: str, blocked: set[str]) -> str:
    """Import a module in a process where others cannot be imported, and return the messages up to a failure."""
    code = f"import sys; sys.modules.update(dict.fromkeys({sorted(blocked)!r})); import {module}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(
    ("module", "blocked"),
    [
        ("nmt_core.config", {"torch", "polars", "pyarrow", "numpy", "filelock", "prefect", "mlflow"}),
        ("nmt_core.stages.table", {"torch", "polars", "pyarrow", "numpy", "onnxruntime", "prefect", "mlflow"}),
        ("nmt_core.translator", {"torch", "polars", "pyarrow", "filelock", "prefect", "mlflow", "yaml"}),
        ("nmt_core.tokenizer.tokenizer", {"torch", "polars", "pyarrow", "filelock", "prefect", "mlflow"}),
        ("nmt_core.train.launch", {"torch", "prefect", "mlflow"}),
    ],
)
def test_a_module_needs_no_more_than_it_should(module: str, blocked: set[str]) -> None:
    assert import_without(module, blocked) == ""


def test_blocking_a_module_works() -> None:
    assert "import of torch halted" in import_without("nmt_core.models.transformer", {"torch"})


def test_kernels_for_gpus_are_imported_only_where_there_is_one() -> None:
    """This also holds for PyTorch's build for CUDA, which has Triton and a compiler that takes seconds to import."""
    code = """
import sys, torch
torch.version.cuda = "13.0"
import nmt_core.models.transformer, nmt_core.models.loss
print("triton" in sys.modules, "torch._inductor" in sys.modules, torch.cuda.is_available())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *imported, has_gpu = done.stdout.split()
    assert has_gpu == "True" or imported == ["False", "False"]
