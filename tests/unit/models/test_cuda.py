"""Kernels for GPUs equal the formulas: on a CPU, in Triton's interpreter, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("cuda_kernels.py")


@pytest.mark.parametrize("what", ["attention", "cross_entropy", "residual"])
def test_a_kernel_computes_the_formula(what: str) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, PROGRAM, what], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cases: " in done.stdout
