"""Measure the price of an update by the number of processes, and by the size of the corpus.

    .venv/bin/python benchmarks/scaling.py [--world 1 2 4] [--pairs N ...] [--parallel apart ddp fsdp]

This runs the real job, started by the real `torchrun` on this machine (`LocalTorchrun`), with gloo and one thread a
process, on synthetic token shards (`synthetic.py`). In the first table each process has the same work, whatever their
number: an update has one micro-batch of `--micro-batch-tokens` tokens for each. In the second, one process trains on
corpora of several sizes.

- apart: this many jobs of one process each, at the same time, which know nothing of each other. They show what more
  processes do to the machine itself, whose cores share memory and its bandwidth. Compare the other rows with these.
- ms an update: wall-clock time between the points of the curves, without the first one, and without validation and
  checkpoints. It is the trainer's own count.
- CPU ms an update: user and system time of `torchrun` and all it started, for each process. Each job runs twice, once
  with more updates, and the difference counts. So start, end and checkpoints are in neither table. Gloo sleeps while it
  waits, so waiting costs nothing here.
- The last column is the CPU time relative to the first row.
- Start is the time from the launch to the end of the shorter job, less its updates.

If there are more processes than cores, they take turns, and wall-clock time must grow accordingly. Then the CPU time
alone shows the cost of an update. It may grow by what is sent: a process reduces 2 (n - 1) / n times the gradients,
which is nothing for one, their size for two, and 1.5 times their size for four. The effect of a network cannot be seen
on one machine.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import synthetic

from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.execution.torchrun import CONFIG, LocalTorchrun
from nmt_core.train.launch import METRICS
from nmt_core.train.status import read_status
from nmt_core.train.trainer import LOG_EVERY

_VOCABULARY = 8_000
_APART = "apart"


@dataclass(frozen=True)
class Job:
    """Cost of one job, or of several at once."""

    updates: int
    milliseconds: float
    """Milliseconds of an update, the mean of the jobs."""
    cpu_seconds: float
    """CPU seconds of all processes, from start to end."""
    start: float


def main() -> None:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(description="Time per update by processes, and by size of the corpus.")
    parser.add_argument("--world", type=int, nargs="+", default=[1, 2, 4], help="numbers of processes (1 2 4)")
    parser.add_argument("--parallel", nargs="+", default=[_APART, "ddp", "fsdp"], help="(apart ddp fsdp)")
    parser.add_argument("--pairs", type=int, nargs="+", default=[50_000, 500_000, 5_000_000], help="sizes, ascending")
    parser.add_argument("--updates", type=int, default=100, help="that are counted (100)")
    parser.add_argument("--micro-batch-tokens", type=int, default=2_048, help="of a process and update, a side (2,048)")
    parser.add_argument("--d-model", type=int, default=256, help="of a model with three layers on either side (256)")
    parser.add_argument("--folder", type=Path, help="where to work (the system's temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-scaling-", dir=arguments.folder) as name:
        folder = Path(name)
        head = "| ms an update | CPU ms an update and process | Start, s | CPU, times the first |"
        print(f"| Parallel | Processes {head}\n| --- | ---: | ---: | ---: | ---: | ---: |")
        data = _corpus(folder, arguments.pairs[0])
        for parallel in arguments.parallel:
            first = 0.0
            for world in arguments.world:
                cpu, row = _row(folder, data, world, parallel, arguments)
                first = first or cpu
                print(f"| {parallel} | {world} {row} {cpu / first:.2f} |", flush=True)
        print(f"\n| Pairs {head}\n| ---: | ---: | ---: | ---: | ---: |")
        first = 0.0
        for pairs in arguments.pairs:
            cpu, row = _row(folder, _corpus(folder, pairs), 1, "ddp", arguments)
            first = first or cpu
            print(f"| {pairs:,} {row} {cpu / first:.2f} |", flush=True)


def _corpus(folder: Path, pairs: int) -> Path:
    data = folder / f"data-{pairs}"
    if not data.exists():
        synthetic.write(data, pairs, _VOCABULARY, processes=2)
    return data


def _row(folder: Path, data: Path, world: int, parallel: str, arguments: argparse.Namespace) -> tuple[float, str]:
    """Return the CPU milliseconds of an update for each process, and the columns of a row up to the last."""
    jobs, processes = (world, 1) if parallel == _APART else (1, world)
    kind = "ddp" if parallel == _APART else parallel
    short, long = (
        _run(folder, jobs, processes, _sections(data, processes, kind, updates, arguments))
        for updates in (LOG_EVERY, LOG_EVERY + arguments.updates)
    )
    cpu = (long.cpu_seconds - short.cpu_seconds) / (long.updates - short.updates) / world * 1e3
    return cpu, f"| {long.milliseconds:,.1f} | {cpu:,.1f} | {short.start:.1f} |"


def _sections(data: Path, world: int, parallel: str, updates: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration that the processes read."""
    train = TrainConfig.model_validate(
        {
            "max_updates": updates,
            "max_tokens": arguments.micro_batch_tokens * world,
            "micro_batch_tokens": arguments.micro_batch_tokens,
            "max_tokens_per_pass": arguments.micro_batch_tokens * world,
            "validate_every": 10 * updates,
            "checkpoint_every": 10 * updates,
            "parallel": parallel,
            "precision": "fp32",
        }
    )
    width, layers = arguments.d_model, {"encoder_layers": 3, "decoder_layers": 3}
    model = ModelConfig.model_validate({"d_model": width, "d_ff": 4 * width, "num_heads": 4, **layers})
    return {"train": train.model_dump(), "model": model.model_dump(), "data": str(data.resolve())}


def _run(folder: Path, jobs: int, world: int, sections: dict[str, Any]) -> Job:
    """Run this many jobs at once, each of this many processes, to their ends."""
    began, cpu = time.perf_counter(), _cpu_seconds_of_children()
    with ThreadPoolExecutor(jobs) as pool:
        times = list(pool.map(lambda _: _seconds(folder, world, sections), range(jobs)))
    wall, cpu = time.perf_counter() - began, _cpu_seconds_of_children() - cpu
    training = max(in_all for in_all, _ in times)
    return Job(sections["train"]["max_updates"], mean(seconds for _, seconds in times) * 1e3, cpu, wall - training)


def _seconds(folder: Path, world: int, sections: dict[str, Any]) -> tuple[float, float]:
    """Return the seconds of all updates of a job, by its own count, and of one update without the first ones."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        run = Path(name)
        (run / CONFIG).write_text(json.dumps(sections))
        with LocalTorchrun(world, world).launch(run) as launched:
            lines = list(launched.lines())
            launched.wait()
        status = read_status(run)
        if status is None or status.state != "finished":
            sys.exit("\n".join(lines))
        points = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    training = [
        (point["update"], point["target_tokens"] / point["target_tokens_per_second"])
        for point in points
        if "train_loss" in point
    ]
    counted = training[1:] or training
    first = training[0][0] if training[1:] else 0
    return sum(seconds for _, seconds in training), sum(seconds for _, seconds in counted) / (counted[-1][0] - first)


def _cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
