"""Run one training process. `torchrun -m nmt_core.train --config <run>/config.json` starts one for each GPU.

The first process reports progress as one JSON object a line, on standard output and in `metrics.jsonl` beside the
checkpoints. The outcome is written to `status.json`. On SIGTERM, training writes a checkpoint and ends. `torchrun`
restarts processes that end with an error. A restarted process ends at once if the outcome is already written.
"""

import argparse
import json
import os
import signal
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from nmt_core.batches.shards import DEV_FILE, TRAIN_FILES, TokenShards, read_pairs
from nmt_core.config import BudgetConfig, ModelConfig, TrainConfig
from nmt_core.errors import NmtError, PreemptedError, StageError
from nmt_core.execution.processes import note_signals
from nmt_core.execution.torchrun import CONFIG
from nmt_core.models.build import build_model
from nmt_core.models.recurrent.cells import truncate_gradients
from nmt_core.train.curves import Curves
from nmt_core.train.device import profiled
from nmt_core.train.distributed import World, join_world
from nmt_core.train.launch import BUDGET, DEV_TEXT, METRICS, PROFILE
from nmt_core.train.restarts import restart_limit_reached
from nmt_core.train.spent import Meter
from nmt_core.train.start import Start
from nmt_core.train.status import Status, clear_status, read_status, write_status
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet

_RESTARTS = "TORCHELASTIC_RESTART_COUNT"

if TYPE_CHECKING:
    from nmt_core.train.translate_dev import DevTranslator


def train(folder: Path, world: World) -> Status:
    """Train in `folder` by its configuration, until training is finished, SIGTERM arrives or the budget is spent."""
    job = json.loads((folder / CONFIG).read_text())
    config = TrainConfig.model_validate(job["train"])
    data = Path(job["data"])
    shards = TokenShards(sorted(data.glob(TRAIN_FILES)))
    dev = DevSet(read_pairs([data / DEV_FILE]), _translator(job, config, world))
    torch.manual_seed(config.seed)
    architecture = ModelConfig.model_validate(job["model"])
    model = build_model(architecture, shards.vocab_size, source_vocab_size=shards.source_vocab_size)
    truncate_gradients(model, config.bptt_steps)
    curves = Curves(folder / METRICS if world.is_first else None)
    trainer = Trainer(model, config, world, folder, curves, Start.model_validate(job.get("start", {})))
    _require_progress(folder, world, trainer.saved_update)
    asked_to_stop = note_signals(signal.SIGTERM)
    budget = BudgetConfig.model_validate(job.get(BUDGET, {}))
    meter = Meter(folder, budget, world.size, world.size if world.device.type == "cuda" else 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher decides
    with profiled(config.profile_updates, folder / PROFILE, world.rank, curves.say):
        # One process requests the stop, and all stop after the same update.
        is_finished = trainer.fit(shards, dev, lambda: bool(asked_to_stop) or (world.is_first and meter.is_over()))
    if world.is_first:
        meter.note()
    is_spent = world.any(bool(meter.over)) and not is_finished
    spent = meter.over or "see the log of the first process" if is_spent else ""
    state: Literal["finished", "stopped"] = "finished" if is_finished else "stopped"
    return Status(state, trainer.saved_update, budget=spent, processes=world.size)


def _translator(job: Mapping[str, Any], config: TrainConfig, world: World) -> "DevTranslator | None":
    """Return the translator of the dev set, or None if no sentences are to be translated.

    Without a translator, neither the dev text nor the tokenizers need to exist.
    """
    if not config.dev_sentences:
        return None
    from nmt_core.train.translate_dev import DevTranslator  # sacreBLEU takes a while to load

    return DevTranslator.load(job[DEV_TEXT], config, world)


def _require_progress(folder: Path, world: World, saved_update: int) -> None:
    """Raise an error in all processes if they die repeatedly without a new checkpoint.

    Raises:
        StageError: the restart limit is reached.
    """
    restarts = max(int(count) for (count,) in world.gather([os.environ.get(_RESTARTS, "0")]))
    problem = restart_limit_reached(folder, saved_update, restarts) if world.is_first else None
    if problem := world.agree(problem):
        raise StageError(problem)


def main() -> int:
    """Run this process and return its exit code."""
    parser = argparse.ArgumentParser(prog="nmt_core.train", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="config.json in the folder of the run")
    folder = parser.parse_args().config.parent
    warnings.filterwarnings("ignore", "torch.distributed is disabled")  # a single process saves by itself
    earlier = read_status(folder) if int(os.environ.get(_RESTARTS, "0")) else None
    if earlier and earlier.holds_for(int(os.environ["WORLD_SIZE"])):
        return 0
    try:
        with join_world() as world:
            if world.is_first:
                clear_status(folder)
            status = train(folder, world)
            if world.is_first:
                write_status(folder, status)
    except NmtError as error:
        write_status(folder, Status("failed", error=f"{error}"))
        return 1
    is_all = status.state == "finished" or status.budget  # a restart would not help
    return 0 if is_all else PreemptedError.exit_code


if __name__ == "__main__":
    sys.exit(main())
