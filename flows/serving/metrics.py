"""Counts and times of the service, for Prometheus."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Metrics of one service.

    Args:
        waiting: function that returns the number of lines that wait.
    """

    def __init__(self, waiting: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "nmt_requests", "Requests for translations, by HTTP status", ["code"], registry=registry
        )
        self._lines = Counter("nmt_lines", "Lines, by the status of their translation", ["status"], registry=registry)
        self._seconds = Histogram(
            "nmt_request_seconds", "Seconds from a request to its answer", buckets=_SECONDS, registry=registry
        )
        self._reloads = Counter("nmt_reloads", "Replacements of the model, by outcome", ["outcome"], registry=registry)
        self._model = Gauge("nmt_model", "1 for the model that answers", ["name", "version"], registry=registry)
        Gauge("nmt_waiting_lines", "Lines that wait for a thread", registry=registry).set_function(waiting)

    def answered(self, code: int, seconds: float, statuses: Iterable[str] = ()) -> None:
        """Count a request, with the statuses of its lines."""
        self._requests.labels(code).inc()
        self._seconds.observe(seconds)
        for status in statuses:
            self._lines.labels(status).inc()

    def serves(self, name: str, version: str) -> None:
        """Say which model answers from now on."""
        self._model.clear()
        self._model.labels(name, version).set(1)

    def reloaded(self, outcome: str) -> None:
        """Count a replacement of the model: `done` or `failed`."""
        self._reloads.labels(outcome).inc()

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
