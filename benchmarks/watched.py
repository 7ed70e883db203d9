"""Run the trainer once in this process, and watch from outside where the time of each update goes.

The trainer is the product's own and is not changed. It asks before each update whether to stop: there an update begins.
`Objective.forward` is wrapped for the time of the run, and the optimizer's hooks mark when a step begins and ends. On a
GPU the marks are events in its stream, so nothing waits for it. Each span lasts until the next mark:

- input: copying the batch (and, for FSDP, gathering the outermost weights);
- forward: model and loss, with the part of the backward pass that the loss computes at once;
- backward: the rest of it, the reduction of gradients, and their norm;
- optimizer: the step;
- between: zeroing gradients, looking at the loss, logging, and waiting for data, which the loader counts separately.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from nmt_core.batches.loader import Loader
from nmt_core.batches.shards import DEV_FILE, TRAIN_FILES, TokenShards, read_pairs
from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.models.build import build_model
from nmt_core.models.transformer import count_parameters
from nmt_core.train.distributed import World, join_world
from nmt_core.train.parallel import Objective
from nmt_core.train.trainer import Trainer
from nmt_core.train.validate import DevSet

_SPANS = ("input", "forward", "backward", "optimizer", "between")


@dataclass
class Run:
    """Observations of one run."""

    parameters: int
    points: list[dict[str, float]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    """Start of each update on the host, in seconds."""
    waited: list[float] = field(default_factory=list)
    """Seconds that the trainer had waited for the loader by then."""
    spans: list[dict[str, float]] = field(default_factory=list)
    """Milliseconds of each update by span."""
    peak_bytes: int = 0
    """Peak memory of tensors on the GPU, or 0 without one."""
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    """Weights at the end, on the CPU, as far as this process has them complete."""

    def point(self, values: Mapping[str, float]) -> None:
        """Keep a point of the curves: `update`, and values by name."""
        self.points.append(dict(values))

    def say(self, message: str) -> None:
        """Keep a message."""
        self.messages.append(message)

    def go_back(self, update: int) -> None:
        """Keep all points, also those after this update."""

    @property
    def dev_losses(self) -> list[float]:
        """Losses on the dev set, in the order in which they were computed."""
        return [point["dev_loss"] for point in self.points if "dev_loss" in point]

    def rates(self, warm_up: int) -> list[float]:
        """Return target tokens per second between the points of the curves after this many updates."""
        name = "target_tokens_per_second"
        return [point[name] for point in self.points if name in point and point["update"] > warm_up]

    def span_means(self, warm_up: int) -> dict[str, float]:
        """Return mean milliseconds of an update by span, after this many updates, and of the wait for data."""
        counted = self.spans[warm_up:]
        means = {name: sum(span.get(name, 0) for span in counted) / max(1, len(counted)) for name in _SPANS}
        # Updates are counted from the second look on: the first comes after the loader's start.
        updates = max(1, len(self.waited) - 1 - warm_up)
        return means | {"waiting for data": (self.waited[-1] - self.waited[warm_up]) / updates * 1e3}


class _Marks:
    """Moments in the stream of a device."""

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"
        self._marks: list[tuple[str, Any]] = []

    def add(self, name: str) -> None:
        """Begin the span of this name now."""
        moment: Any = time.perf_counter()
        if self._is_cuda:
            moment = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            moment.record()
        self._marks.append((name, moment))

    def spans(self) -> list[dict[str, float]]:
        """Milliseconds of each whole update by span. What is before the first update counts for nothing."""
        if self._is_cuda:
            torch.cuda.synchronize()
        updates: list[Counter[str]] = []
        for (name, begin), (_, end) in zip(self._marks, self._marks[1:], strict=False):
            if name == "input":
                updates.append(Counter())
            if updates:
                updates[-1][name] += begin.elapsed_time(end) if self._is_cuda else (end - begin) * 1e3
        return [dict(update) for update in updates[:-1]]  # the last one has the final checkpoint in it


@contextmanager
def one_process(device: str) -> Iterator[World]:
    """Join a process group of this process alone, as a training process joins its own."""
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "GLOO_SOCKET_IFNAME": "lo"}
    with join_world() as world:
        yield world if device == "cuda" else World(0, 1, torch.device(device))


def train(
    data: Path,
    folder: Path,
    world: World,
    configs: tuple[ModelConfig, TrainConfig],
    before_update: Callable[[int], bool] = lambda update: False,
) -> Run:
    """Train, or resume in this folder.

    Args:
        data: folder of token shards.
        folder: of the run.
        world: this process.
        configs: model, and how to train it.
        before_update: told the number of each update from 0 before it is done; True ends training after it, with a
            checkpoint.
    """
    model_config, train_config = configs
    shards, dev = TokenShards(sorted(data.glob(TRAIN_FILES))), read_pairs([data / DEV_FILE])
    torch.manual_seed(train_config.seed)
    model = build_model(model_config, shards.vocab_size, source_vocab_size=shards.source_vocab_size)
    run, marks = Run(count_parameters(model)), _Marks(world.device)
    folder.mkdir(parents=True, exist_ok=True)
    if is_cuda := world.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with _watching(marks) as loaders:
        trainer = Trainer(model, train_config, world, folder, run)

        def should_stop() -> bool:
            run.starts.append(time.perf_counter())
            run.waited.append(sum(loader.seconds_waited for loader in loaders))
            marks.add("input")
            return before_update(len(run.starts) - 1)

        trainer.fit(shards, DevSet(dev), should_stop)
    run.spans = marks.spans()
    run.peak_bytes = torch.cuda.max_memory_allocated() if is_cuda else 0
    run.weights = {name: weight.detach().cpu() for name, weight in model.named_parameters()}
    return run


@contextmanager
def _watching(marks: _Marks) -> Iterator[list[Loader]]:
    """Mark the spans of the code in the block. Yield the loaders that it uses."""
    loaders: list[Loader] = []
    forward, enter = Objective.forward, Loader.__enter__

    def marked_forward(self: Objective, *arguments: Any) -> Any:
        marks.add("forward")
        losses = forward(self, *arguments)
        marks.add("backward")
        return losses

    def noted_enter(self: Loader) -> Loader:
        loaders.append(self)
        return enter(self)

    hooks = (
        register_optimizer_step_pre_hook(lambda *_: marks.add("optimizer")),
        register_optimizer_step_post_hook(lambda *_: marks.add("between")),
    )
    Objective.forward, Loader.__enter__ = marked_forward, noted_enter  # type: ignore[method-assign,assignment]
    try:
        yield loaders
    finally:
        Objective.forward, Loader.__enter__ = forward, enter  # type: ignore[method-assign]
        for hook in hooks:
            hook.remove()
