"""What a stage took: time, processors, tokens, energy and money."""

import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from flows.settings import Prices
from nmt_core.train.spent import Spent

Tell = Callable[[int, Mapping[str, float]], None]
"""See `system_metrics.Tell`; that module takes a second to import."""

_HOUR = 3_600
_POWER = ("system/gpu_", "_power_usage_watts")  # as MLflow's collector names it, with the GPU's number in between


class Cost(BaseModel):
    """What one stage took in one run, or all of them; what was reused took nothing."""

    seconds: float = 0.0
    """By the clock on the wall."""
    cpu_seconds: float = 0.0
    """CPU time of this machine, and of training wherever it ran."""
    gpu_seconds: float = 0.0
    """Seconds for each GPU that was held."""
    tokens: int = 0
    """Target tokens that training learnt from, or that were translated; tokens of both sides that were encoded."""
    energy_watt_hours: float | None = None
    """Of this machine's NVIDIA GPUs, by their own meters; None: they tell nothing."""
    money: float | None = None
    """In the settings' currency; None: no price is set."""

    def plus(self, other: "Cost") -> "Cost":
        """Both together; what one does not know is that of the other."""
        values = {}
        for name in type(self).model_fields:
            known = [value for value in (getattr(self, name), getattr(other, name)) if value is not None]
            values[name] = round(sum(known), 6) if known else None
        return Cost.model_validate(values)

    def metrics(self) -> dict[str, float]:
        """As MLflow takes it."""
        return {f"cost.{name}": float(value) for name, value in self.model_dump().items() if value is not None}


def total(costs: list[Cost]) -> Cost:
    """All together."""
    found = Cost()
    for cost in costs:
        found = found.plus(cost)
    return found


@dataclass
class StageMeter:
    """Counts from when it is made."""

    before: Spent = field(default_factory=Spent)
    """What earlier attempts of a training have taken."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    _cpu_start: float = field(default_factory=lambda: _cpu_seconds())
    _joules: float | None = None

    def __post_init__(self) -> None:
        self._start = self._sampled = self.clock()

    def sample(self, values: Mapping[str, float]) -> None:
        """Take in the power of the GPUs, if it is among the system metrics."""
        watts = [value for name, value in values.items() if name.startswith(_POWER[0]) and name.endswith(_POWER[1])]
        now = self.clock()
        if watts:
            self._joules = (self._joules or 0.0) + sum(watts) * (now - self._sampled)
        self._sampled = now

    def passing_on(self, tell: Tell) -> Tell:
        """Sees the system metrics on their way."""

        def sample(step: int, values: Mapping[str, float]) -> None:
            self.sample(values)
            tell(step, values)

        return sample

    def cost(self, report: Mapping[str, Any], after: Spent, prices: Prices) -> Cost:
        """Until now.

        Args:
            report: what the stage says of itself; empty if it has not come to its end.
            after: what the training has taken, earlier attempts included.
            prices: of the machines.
        """
        trained = after.plus(self.before, -1)
        seconds = self.clock() - self._start
        cpu_seconds = trained.cpu_seconds if trained.attempts else max(0.0, _cpu_seconds() - self._cpu_start)
        gpu_seconds = trained.gpu_seconds or (report.get("seconds", 0.0) if report.get("device") == "cuda" else 0.0)
        tokens = report.get("tokens") or report.get("source_tokens", 0) + report.get("target_tokens", 0)
        money = (gpu_seconds * prices.gpu_hour + cpu_seconds * prices.cpu_hour) / _HOUR
        return Cost(
            seconds=round(seconds, 2),
            cpu_seconds=round(cpu_seconds, 2),
            gpu_seconds=round(gpu_seconds, 2),
            tokens=tokens,
            energy_watt_hours=None if self._joules is None else round(self._joules / _HOUR, 3),
            money=round(money, 6) if prices.gpu_hour or prices.cpu_hour else None,
        )


def _cpu_seconds() -> float:
    """CPU time of this process and of those that it has started and seen end."""
    if os.name == "nt":
        return time.process_time()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
