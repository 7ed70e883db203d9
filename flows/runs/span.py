"""Forecast of a stage: how long it takes and what it needs, each as a likely value with a range."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from nmt_core.config.budget import SECONDS_PER_HOUR

Origin = Literal["run", "measurement", "reference"]
"""Origin of a forecast: an earlier run of this kind of machine, a measurement of it, or figures of another machine."""


class Span(BaseModel):
    """Likely value, and the range that it is expected to be in."""

    model_config = ConfigDict(frozen=True)
    likely: float
    low: float
    high: float

    @classmethod
    def around(cls, likely: float, factor: float) -> "Span":
        """Return a range from a fraction of a value to its multiple."""
        return cls(likely=likely, low=likely / factor, high=likely * factor)

    def containing(self, values: Sequence[float]) -> "Span":
        """Return the range, widened to contain these values."""
        return Span(likely=self.likely, low=min([self.low, *values]), high=max([self.high, *values]))

    def times(self, factor: float) -> "Span":
        """Return the range with all values multiplied."""
        return Span(likely=self.likely * factor, low=self.low * factor, high=self.high * factor)

    def plus(self, other: "Span") -> "Span":
        """Return the sum of two ranges. It is as wide as if both are wrong in the same direction."""
        return Span(likely=self.likely + other.likely, low=self.low + other.low, high=self.high + other.high)


class StageForecast(BaseModel):
    """Forecast of one stage. None means that it cannot be foreseen."""

    model_config = ConfigDict(frozen=True)
    name: str
    seconds: Span | None = None
    """Wall-clock time."""
    cpu_seconds: float | None = None
    gpu_seconds: float | None = None
    memory_bytes: float | None = None
    """Peak memory of all processes on this machine, without the memory of GPUs."""
    disk_bytes: float | None = None
    """Size of what the stage writes, at its peak."""
    origin: Origin | None = None
    basis: str = ""
    """Run, measurement or machine that the time is scaled from, or why there is no forecast."""

    def money(self, gpu_hour: float, cpu_hour: float) -> Span | None:
        """Return the price of the stage, or None if no price is set or its time is not known."""
        if self.seconds is None or not self.seconds.likely or not (gpu_hour or cpu_hour):
            return None
        price = ((self.gpu_seconds or 0) * gpu_hour + (self.cpu_seconds or 0) * cpu_hour) / SECONDS_PER_HOUR
        return self.seconds.times(price / self.seconds.likely)


def total(spans: list[Span]) -> Span:
    """Return the sum of several ranges."""
    summed = Span(likely=0, low=0, high=0)
    for span in spans:
        summed = summed.plus(span)
    return summed
