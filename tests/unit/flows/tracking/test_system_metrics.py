"""System metrics are sampled while a stage runs, and not after."""

import threading
from collections.abc import Mapping

import pytest
from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
from support.until import patient, until

from flows.tracking.system_metrics import sampled

MACHINE = {"cpu_utilization_percentage", "system_memory_usage_megabytes", "disk_usage_percentage"}


class Told:
    """Reporter that keeps its messages, and can be waited for."""

    def __init__(self, enough: int) -> None:
        self.samples: list[tuple[int, dict[str, float]]] = []
        self.has_enough = threading.Event()
        self._enough = enough

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        self.samples.append((step, dict(values)))
        if len(self.samples) >= self._enough:
            self.has_enough.set()


def sampler_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "system metrics"]


def test_samples_have_mlflows_names_and_true_figures() -> None:
    told = Told(3)
    with sampled(told, seconds=0.3):
        while not told.has_enough.is_set():
            sum(range(1_000))  # so that a CPU has something to do
    assert [step for step, _ in told.samples[:3]] == [0, 1, 2]
    for _, values in told.samples:
        assert {f"system/{name}" for name in MACHINE} <= values.keys()
        assert 0 < values["system/cpu_utilization_percentage"] <= 100, "the first one too"
        assert 100 < values["system/system_memory_usage_megabytes"] < 1e8
        assert 0 < values["system/disk_usage_percentage"] <= 100


def test_no_thread_is_left_that_could_tell_something_after_the_end() -> None:
    told = Told(2)
    with sampled(told, seconds=0.05):
        assert told.has_enough.wait(patient(60))
    until(lambda: not sampler_threads(), "it samples on")


def test_what_cannot_be_read_is_left_out_and_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a machine whose disk cannot be measured, and whose CPUs cannot from the second sample on."""
    asked: list[CPUMonitor] = []
    read = CPUMonitor.collect_metrics

    def read_twice(self: CPUMonitor) -> None:
        asked.append(self)
        if len(asked) > 2:
            raise OSError("gone")
        read(self)

    def refuse(path: str) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(CPUMonitor, "collect_metrics", read_twice)
    monkeypatch.setattr("psutil.disk_usage", refuse)
    told = Told(3)
    with sampled(told, seconds=0.05):
        assert told.has_enough.wait(patient(60))
    kinds = [{name.split("_")[0] for name in values} for _, values in told.samples[:3]]
    assert kinds == [{"system/cpu", "system/system", "system/network"}, {"system/network"}, {"system/network"}]
