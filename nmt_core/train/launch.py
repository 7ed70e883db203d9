"""The `train` stage: start `torchrun` as a child, relay what it tells, and own it to its last process."""

import contextlib
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt_core import processes
from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.stage import Inputs, Job, Resources, StageReport

CONFIG = "config.json"
METRICS = "metrics.jsonl"
EXIT_STOPPED = 75
"""A training process was asked to stop and has written a checkpoint (EX_TEMPFAIL: try again)."""

_GRACE_SECONDS = 30


class TrainReport(StageReport):
    """How training went."""

    updates: int
    train_loss: float
    dev_loss: float
    """Plain loss in nats per target token, as are the others."""
    best_dev_loss: float
    target_tokens_per_second: float
    useful_token_share: float


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> TrainReport:
    """Train, or go on training, in `out`.

    Raises:
        StageError: a process failed; the message holds its own error.
    """
    data = inputs["encode"].path
    sections = {"train": config.train.model_dump(), "model": config.model.model_dump(), "data": str(data.resolve())}
    (out / CONFIG).write_text(json.dumps(sections, indent=1))
    with _torchrun(out, job.resources) as process:
        _relay(process, config.train.max_updates, job)
    return _report(out, inputs["encode"].report()["items_out"])


def command(folder: Path, resources: Resources) -> list[str]:
    """What starts the processes on this machine; the rendezvous stays on the loopback."""
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes", "1", "--nproc-per-node", str(resources.processes)),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"),
        *("-m", "nmt_core.train", "--config", str(folder / CONFIG)),
    ]


@contextlib.contextmanager
def _torchrun(folder: Path, resources: Resources) -> Iterator[subprocess.Popen[bytes]]:
    """Start the processes; whatever ends the block early ends them all, after a chance to write a checkpoint."""
    environment = os.environ | {
        "OMP_NUM_THREADS": str(max(1, resources.threads // resources.processes)),
        "PYTHONUNBUFFERED": "1",
    }
    # Threads that spin for long while they wait take the CPU from those they wait for, if anything else runs here: two
    # threads on two busy cores were 2 to 8 times slower without this bound, and no faster on idle ones.
    environment.setdefault("GOMP_SPINCOUNT", "10000")
    # Batches come in hundreds of shapes, and oneDNN keeps code and scratch for the last 1,024: 850 MB more after 300
    # updates of a small model, for no speed.
    environment.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    if "GLOO_SOCKET_IFNAME" not in environment and Path("/sys/class/net/lo").exists():
        environment["GLOO_SOCKET_IFNAME"] = "lo"  # one node: gloo need not listen elsewhere
    process = processes.start(command(folder.resolve(), resources), environment, subprocess.PIPE)
    try:
        yield process
    except BaseException:
        processes.end(process, _GRACE_SECONDS)
        raise


def _relay(process: subprocess.Popen[bytes], max_updates: int, job: Job) -> None:
    """Turn the lines of the first process into progress, curves and log, until all have ended."""
    assert process.stdout
    last_lines: deque[str] = deque(maxlen=20)
    error = ""
    for raw in process.stdout:
        line = raw.decode("utf-8", "replace").rstrip()
        point = _parse(line)
        if point is None:
            last_lines.append(line)
            job.reporter.log(line)
        elif "error" in point:
            error = point["error"]
        else:
            update = int(point.pop("update"))
            job.reporter.metrics(update, point)
            job.reporter.progress(update, max_updates, _note(point))
    code = process.wait()
    if code:
        detail = error or "\n".join(last_lines)
        raise StageError(f"train: torchrun ended with exit code {code}: {detail}")


def _parse(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        point = json.loads(line)
    except ValueError:
        return None
    return point if isinstance(point, dict) else None


def _note(point: Mapping[str, float]) -> str:
    if "dev_loss" in point:
        return f"dev loss {point['dev_loss']:.3f}"
    return f"loss {point['train_loss']:.3f}, {point['target_tokens_per_second']:,.0f} tokens/s"


def _report(out: Path, pairs: int) -> TrainReport:
    points = [json.loads(line) for line in (out / METRICS).read_text().splitlines()]
    training = [point for point in points if "train_loss" in point]
    validation = [point for point in points if "dev_loss" in point][-1]
    half = training[len(training) // 2 :]
    return TrainReport(
        items_in=pairs,
        items_out=len(list((out / "weights").glob("*.safetensors"))),
        unit="checkpoints",
        updates=training[-1]["update"],
        train_loss=training[-1]["train_loss"],
        dev_loss=validation["dev_loss"],
        best_dev_loss=validation["best_dev_loss"],
        target_tokens_per_second=sum(point["target_tokens_per_second"] for point in half) / len(half),
        useful_token_share=sum(point["useful_token_share"] for point in half) / len(half),
    )
