"""Write a small checkpoint with the Python that runs this, into the folder python-VERSION beside it.

PYTHONPATH=. PYTHON tests/golden/checkpoints/make.py
"""

import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict_saver import save

from nmt_core.train.checksums import Writer

VALUES: dict[str, Any] = {
    "model": {"weight": torch.arange(6.0).reshape(2, 3), "ids": torch.arange(3), "bf16": torch.ones(2).bfloat16()},
    "optimizer": {"param_groups": {"lr": 0.1, "betas": (0.9, 0.98), "fused": None, "names": ["a", "b"], "flag": True}},
    "progress": "{}",
}

if __name__ == "__main__":
    folder = Path(__file__).resolve().with_name(f"python-{platform.python_version()}")
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)  # an index names the folder that it was written to
        save(VALUES, storage_writer=Writer(Path("checkpoint")), no_dist=True)
        Path("checkpoint").rename(folder)
