"""One training process; `torchrun -m nmt_core.train --config <run>/config.json` starts as many as there are GPUs.

The first process tells how it goes: one JSON object a line on standard output, and the same in `metrics.jsonl` beside
the checkpoints. SIGTERM asks for a checkpoint and an end; the process then exits with `EXIT_STOPPED`.
"""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import torch

from nmt_core.batches.shards import DEV_FILE, TRAIN_FILES, read_shards
from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.errors import NmtError
from nmt_core.models.transformer import Transformer
from nmt_core.train.distributed import World, join_world
from nmt_core.train.launch import CONFIG, EXIT_STOPPED, METRICS
from nmt_core.train.trainer import Trainer


class Curves:
    """Points of the curves, in a file and on standard output. After a resume, points beyond the checkpoint go."""

    def __init__(self, file: Path, update: int) -> None:
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["update"] <= update]
        file.write_text("".join(kept))
        self._file = file.open("a", buffering=1)

    def emit(self, point: Mapping[str, float]) -> None:
        """Write one point."""
        line = json.dumps(point) + "\n"
        self._file.write(line)
        sys.stdout.write(line)
        sys.stdout.flush()


def train(folder: Path, world: World) -> bool:
    """Train in `folder` by its configuration; False if stopped before the end."""
    job = json.loads((folder / CONFIG).read_text())
    config = TrainConfig.model_validate(job["train"])
    data = Path(job["data"])
    pairs, dev = read_shards(sorted(data.glob(TRAIN_FILES))), read_shards([data / DEV_FILE])
    torch.manual_seed(config.seed)
    architecture = ModelConfig.model_validate(job["model"])
    model = Transformer(architecture, pairs.vocab_size, source_vocab_size=pairs.source_vocab_size)
    trainer = Trainer(model, config, world, folder)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher decides
    curves = Curves(folder / METRICS, trainer.progress.update) if world.is_first else None
    return trainer.fit(pairs, dev, curves.emit if curves else lambda point: None, stop.is_set)


def main() -> int:
    """Entry of each process."""
    parser = argparse.ArgumentParser(prog="nmt_core.train", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="config.json in the folder of the run")
    folder = parser.parse_args().config.parent
    try:
        with join_world() as world:
            return 0 if train(folder, world) else EXIT_STOPPED
    except NmtError as error:
        print(json.dumps({"error": f"{error}"}), flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
