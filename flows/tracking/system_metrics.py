"""Resource use of a stage as MLflow's `system/...` metrics: CPU, memory, disk, network and NVIDIA GPUs.

MLflow's collectors read the values, so they have the names and units that its pages know. MLflow's own monitor would
send them from a thread that ends when the server does not answer. This one passes them to the tracker, which retries.
The metrics describe the machine that the stage runs on. Processes that train elsewhere, on a cluster, report their
memory and speed with the other metrics of training.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping

from mlflow.system_metrics.metrics.base_metrics_monitor import BaseMetricsMonitor
from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

Tell = Callable[[int, Mapping[str, float]], None]
"""Callback that receives the number of a sample, and values by name."""

SYSTEM = "system/"
"""Beginning of the names of these metrics, by which MLflow shows them on a page of their own."""

_SECONDS_BETWEEN_SAMPLES = 10.0  # as in MLflow

_log = logging.getLogger(__name__)
# The GPU collector logs at every sample what a GPU cannot report, such as the load of a MIG instance.
logging.getLogger("mlflow.system_metrics").setLevel(logging.CRITICAL)


@contextlib.contextmanager
def sampled(tell: Tell, seconds: float = _SECONDS_BETWEEN_SAMPLES) -> Iterator[None]:
    """Take a sample at an interval of `seconds`, numbered from 0, until the block ends.

    Metrics that cannot be read are left out.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_sample, args=(tell, seconds, ended), name="system metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _sample(tell: Tell, seconds: float, ended: threading.Event) -> None:
    collectors = _collectors()
    step = 0
    while not ended.wait(seconds):
        values: dict[str, float] = {}
        for collector in collectors:
            try:
                collector.collect_metrics()
                values |= {f"{SYSTEM}{name}": value for name, value in collector.aggregate_metrics().items()}
                collector.clear_metrics()
            except Exception as error:
                _log.debug("no sample of %s", type(collector).__name__, exc_info=error)
        tell(step, values)
        step += 1


def _collectors() -> list[BaseMetricsMonitor]:
    """Return the collectors that work here. Without a GPU or nvidia-ml-py, the GPU collector is left out."""
    collectors: list[BaseMetricsMonitor] = []
    for kind in (CPUMonitor, DiskMonitor, NetworkMonitor, GPUMonitor):
        try:
            collector = kind()
            collector.collect_metrics()  # the CPU load is measured between two readings in the same thread
            collector.clear_metrics()
            collectors.append(collector)
        except Exception as error:
            _log.debug("no %s", kind.__name__, exc_info=error)
    return collectors
