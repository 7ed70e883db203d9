"""Cost of a stage: time, processors, tokens, energy and money."""

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
from pydantic import BaseModel

from flows.settings import Prices
from nmt_core.config.budget import SECONDS_PER_HOUR
from nmt_core.train.spent import Spent

Tell = Callable[[int, Mapping[str, float]], None]
"""Type of `system_metrics.Tell`. It is repeated here because that module takes a second to import."""

_SECONDS_BETWEEN_MEMORY_SAMPLES = 1.0
_POWER = ("system/gpu_", "_power_usage_watts")  # names of MLflow's collector, with the number of the GPU in between


class Cost(BaseModel):
    """Cost of one stage in one run, or of several. A reused stage costs nothing."""

    seconds: float = 0.0
    """Wall-clock time."""
    cpu_seconds: float = 0.0
    """CPU time of this machine, and of training on any machine."""
    gpu_seconds: float = 0.0
    """GPU time: seconds times the number of GPUs in use."""
    node_seconds: float | None = None
    """Time that a Slurm cluster counts for the jobs of a training, times their nodes: what a site charges for. Of a job
    that Slurm itself has put back into the queue, it is the last attempt. None for training elsewhere."""
    tokens: int = 0
    """Target tokens that were trained on or translated, and tokens of both sides that were encoded."""
    energy_watt_hours: float | None = None
    """Energy of this machine's NVIDIA GPUs as they report it. None if they do not."""
    money: float | None = None
    """Cost in the currency of the settings. None if no price is set."""
    memory_bytes: int | None = None
    """Peak memory of this process and its children on this machine, as far as samples show it. None if it was not
    measured. In a sum, it is the larger one."""

    def plus(self, other: "Cost") -> "Cost":
        """Return the sum of two costs. A value that one of them lacks is taken from the other."""
        values = {}
        for name in type(self).model_fields:
            known = [value for value in (getattr(self, name), getattr(other, name)) if value is not None]
            values[name] = round(sum(known), 6) if known else None
        values["memory_bytes"] = max(filter(None, (self.memory_bytes, other.memory_bytes)), default=None)
        return Cost.model_validate(values)

    def metrics(self) -> dict[str, float]:
        """Return the cost as MLflow metrics."""
        return {f"cost.{name}": float(value) for name, value in self.model_dump().items() if value is not None}


def total(costs: list[Cost]) -> Cost:
    """Return the sum of several costs."""
    summed = Cost()
    for cost in costs:
        summed = summed.plus(cost)
    return summed


class PartCost(BaseModel):
    """Time and tokens of a part of a model's making, in the run that made it."""

    part: str
    """Name of the part, such as `Training`."""
    seconds: float
    """Wall-clock time, of a training over all its attempts."""
    tokens: int | None
    """Target tokens that were trained on or written. None if an earlier version did not count them."""


def part_costs(train: Mapping[str, Any] | None, synthesise: Mapping[str, Any] | None) -> list[PartCost]:
    """Return what the translations of each teacher and the training took, also where a run reused them.

    Args:
        train: Report of the stage. None if the run did not reach it.
        synthesise: Report of the stage. None if the recipe has none, or if the run did not reach it.
    """
    parts = [
        PartCost(
            part=f"Translation of {made['part']} by {made['teacher']}",
            seconds=made["seconds"],
            tokens=made.get("tokens"),
        )
        for made in (synthesise or {}).get("teachers", [])
    ]
    if train:
        parts.append(PartCost(part="Training", seconds=train["seconds"], tokens=train.get("tokens")))
    return parts


@dataclass
class StageMeter:
    """Meter that starts when it is created."""

    before: Spent = field(default_factory=Spent)
    """Resources that earlier attempts of a training used."""
    clock: Callable[[], float] = time.monotonic
    """Clock in seconds."""
    _cpu_start: float = field(default_factory=lambda: _cpu_seconds())
    _joules: float | None = None
    _memory_bytes: int | None = None

    def __post_init__(self) -> None:
        self._start = self._sampled = self.clock()

    def sample(self, values: Mapping[str, float]) -> None:
        """Add the power of the GPUs, if it is among the system metrics."""
        watts = [value for name, value in values.items() if name.startswith(_POWER[0]) and name.endswith(_POWER[1])]
        now = self.clock()
        if watts:
            self._joules = (self._joules or 0.0) + sum(watts) * (now - self._sampled)
        self._sampled = now

    def passing_on(self, tell: Tell) -> Tell:
        """Return a callback that adds each sample of system metrics and passes it on."""

        def sample(step: int, values: Mapping[str, float]) -> None:
            self.sample(values)
            tell(step, values)

        return sample

    @contextmanager
    def watching_memory(self, seconds: float = _SECONDS_BETWEEN_MEMORY_SAMPLES) -> Iterator[None]:
        """Measure the memory of this process and its children at an interval of `seconds`, until the block ends."""
        ended = threading.Event()

        def watch() -> None:
            while True:
                self._memory_bytes = max(self._memory_bytes or 0, _memory_of_all())
                if ended.wait(seconds):
                    return

        thread = threading.Thread(target=watch, name="memory", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()

    def cost(self, report: Mapping[str, Any], after: Spent, prices: Prices) -> Cost:
        """Return the cost until now.

        Args:
            report: Report of the stage. Empty if the stage did not finish.
            after: Resources that the training used, including earlier attempts.
            prices: Prices of the machines.
        """
        trained = after.plus(self.before, -1)
        seconds = self.clock() - self._start
        cpu_seconds = trained.cpu_seconds if trained.attempts else max(0.0, _cpu_seconds() - self._cpu_start)
        gpu_seconds = trained.gpu_seconds or (report.get("seconds", 0.0) if report.get("device") == "cuda" else 0.0)
        tokens = report.get("tokens") or report.get("source_tokens", 0) + report.get("target_tokens", 0)
        money = (gpu_seconds * prices.gpu_hour + cpu_seconds * prices.cpu_hour) / SECONDS_PER_HOUR
        return Cost(
            seconds=round(seconds, 2),
            cpu_seconds=round(cpu_seconds, 2),
            gpu_seconds=round(gpu_seconds, 2),
            node_seconds=round(trained.node_seconds, 2) if trained.node_seconds else None,
            tokens=tokens,
            energy_watt_hours=None if self._joules is None else round(self._joules / SECONDS_PER_HOUR, 3),
            money=round(money, 6) if prices.gpu_hour or prices.cpu_hour else None,
            memory_bytes=self._memory_bytes,
        )


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its child processes that have ended."""
    if os.name == "nt":
        return time.process_time()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _memory_of_all() -> int:
    """Return the resident memory of this process and its children in bytes. Pages that they share count for each."""
    own = psutil.Process()
    total_bytes = own.memory_info().rss
    for child in own.children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            total_bytes += child.memory_info().rss
    return int(total_bytes)
