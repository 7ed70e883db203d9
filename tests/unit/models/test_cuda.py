"""Kernels for GPUs equal the formulas, in Triton's interpreter on a CPU, in a separate process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("cuda_kernels.py")


@pytest.mark.slow
def test_each_kernel_computes_the_formula() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = dict(re.findall(r"^(\w+): (\d+) cases$", done.stdout, re.MULTILINE))
    assert (
        cases.keys() == {"attention", "cross_entropy", "residual", "feed_forward"}
        and min(map(int, cases.values())) >= 10
    )
