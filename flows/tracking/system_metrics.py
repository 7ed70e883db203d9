"""What a stage takes of the machine, as MLflow's own `system/...` metrics: CPU, memory, disk, network, NVIDIA GPUs.

MLflow's collectors read the figures, so they have the names and the units that its pages know. Its own monitor would
write them to the server from a thread that ends for good when the server does not answer; ours hands them on to the
tracker, which waits. They are those of the machine that the stage runs on: processes that train elsewhere, on a
cluster, tell their memory and speed with the other points of the training.
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
"""Gets the number of a sample, and values by name."""

_SECONDS_BETWEEN_SAMPLES = 10.0  # as in MLflow

_log = logging.getLogger(__name__)
# The GPU's says at every sample what a GPU cannot tell, such as the load of a part of one (MIG).
logging.getLogger("mlflow.system_metrics").setLevel(logging.CRITICAL)


@contextlib.contextmanager
def sampled(tell: Tell, seconds: float = _SECONDS_BETWEEN_SAMPLES) -> Iterator[None]:
    """Tell a sample every so many seconds, numbered from 0, until the block ends. What cannot be read is left out."""
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
                values |= {f"system/{name}": value for name, value in collector.aggregate_metrics().items()}
                collector.clear_metrics()
            except Exception as error:
                _log.debug("no sample of %s", type(collector).__name__, exc_info=error)
        tell(step, values)
        step += 1


def _collectors() -> list[BaseMetricsMonitor]:
    """Those that work here: without a GPU, or without nvidia-ml-py, that of the GPUs does not."""
    found: list[BaseMetricsMonitor] = []
    for kind in (CPUMonitor, DiskMonitor, NetworkMonitor, GPUMonitor):
        try:
            collector = kind()
            collector.collect_metrics()  # the load of the CPUs is told from one reading to the next, in one thread
            collector.clear_metrics()
            found.append(collector)
        except Exception as error:
            _log.debug("no %s", kind.__name__, exc_info=error)
    return found
