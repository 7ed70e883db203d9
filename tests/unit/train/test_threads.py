"""OpenMP's threads wait actively for the next operator only while they are no more than the machine's cores.

So only the thread that trains may get a pool of them: a process that has saved, loaded and read batches must have as
many threads as before. The test runs in its own process, in which nothing else has happened.
"""

import os
import subprocess
import sys
from pathlib import Path

import support

PROGRAM = """
import sys, threading
from pathlib import Path

import numpy as np
import psutil
import torch

from nmt_core.batches.collate import pad
from nmt_core.batches.shards import SideTokens, TokenPairs
from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.models.transformer import Transformer
from nmt_core.train.checkpoint import Checkpoints, Training
from nmt_core.train.distributed import join_world
from nmt_core.train.optimizer import make_optimizer
from nmt_core.train.parallel import Parallel
from nmt_core.train.progress import Progress
from support.until import until


def threads():
    return {each.id for each in psutil.Process().threads()}


has_read, is_over = threading.Event(), threading.Event()


def read_a_large_batch():
    ids = np.full(100_000, 5, np.int32)
    side = SideTokens(ids, np.array([0]), np.array([len(ids)]))
    pad(TokenPairs(side, side), np.array([0]))
    has_read.set()
    is_over.wait()  # as the loader does, for the next update


with join_world() as world:
    config = ModelConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=12, decoder_layers=12)
    parallel = Parallel(Transformer(config, 20), TrainConfig(), world)
    optimizer = make_optimizer(parallel.model, TrainConfig())
    ids = torch.arange(4, 10)[None]
    parallel.model(ids, ids).sum().backward()
    optimizer.step()
    torch.ones(1 << 22).add_(1)
    training = Training(parallel, optimizer, None)
    checkpoints = Checkpoints(Path(sys.argv[1]), 2, world)
    reader = threading.Thread(target=read_a_large_batch, daemon=True)
    before = threads()
    checkpoints.save(training, Progress(update=1), with_weights=False)
    checkpoints.wait()
    checkpoints.load_newest(training)
    reader.start()
    has_read.wait()
    until(lambda: not threads() - before - {reader.native_id}, "threads are left")
    is_over.set()
"""


def test_saving_and_loading_leave_no_thread_behind(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "2", "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    environment |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_PORT": "0"}
    command = [sys.executable, "-c", PROGRAM, f"{tmp_path}"]
    environment["PYTHONPATH"] = str(Path(support.__file__).parents[1])
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
