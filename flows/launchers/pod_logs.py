"""Logs of several pods as one stream of lines, without lost or repeated lines when a connection breaks.

A broken stream is resumed a little before its last line. Every line has a timestamp, by which lines that were read
already are recognised.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flows.launchers.cluster_api import ClusterApi
from flows.launchers.reach import NoAnswerError
from nmt_core.errors import ConfigError

_OVERLAP = 15
"""Seconds of a log that are read again before its last line, for clock differences and lines in transit."""


class PodLogs:
    """Logs of pods, each of which is followed in a thread of its own."""

    def __init__(self, api: ClusterApi, pause: float) -> None:
        """Create an empty set of logs.

        Args:
            api: Kubernetes API.
            pause: Seconds before a stream that has ended is resumed.
        """
        self._api = api
        self._pause = pause
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._followers: dict[str, threading.Thread] = {}
        self._stop = threading.Event()

    def follow(self, pod: str) -> None:
        """Follow a pod from its first line, if it is not followed already."""
        if pod not in self._followers:
            follower = _Follower(self._api, pod, self._lines.put, self._stop, self._pause)
            thread = threading.Thread(target=follower.run, name=f"log of {pod}", daemon=True)
            self._followers[pod] = thread
            thread.start()

    def next_line(self, timeout: float) -> str | None:
        """Return the next line of any pod, or None if there is none for `timeout` seconds."""
        try:
            return self._lines.get(timeout=timeout)
        except queue.Empty:
            return None

    def rest(self, timeout: float) -> list[str]:
        """Return the last lines after all containers have ended, after at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        for thread in self._followers.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        lines = []
        while not self._lines.empty():
            lines.append(self._lines.get())
        return lines

    def stop(self) -> None:
        """Stop following."""
        self._stop.set()


@dataclass
class _Follower:
    """Follower of one pod, through restarts of its container."""

    api: ClusterApi
    pod: str
    put: Callable[[str], None]
    stop: threading.Event
    pause: float
    _last: bytes = b""
    """Timestamp of the last line in the log."""
    _count: int = 0
    """Number of lines with that timestamp."""
    _read_at: float | None = field(default=None)
    """Local time at which the last line arrived."""

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                pod = self.api.pod(self.pod)  # before reading: a log that is read after the end is complete
                self._read()
                if pod is None or pod.has_ended:
                    return
            except (NoAnswerError, ConfigError):  # the container has not started, or the server does not answer
                pass
            self.stop.wait(self.pause)

    def _read(self) -> None:
        """Read to the end of the stream."""
        since = None if self._read_at is None else int(time.monotonic() - self._read_at) + _OVERLAP
        seen = 0
        for line in self.api.log(self.pod, since):
            if self.stop.is_set():
                return
            written, _, text = line.rstrip(b"\r\n").partition(b" ")
            if written < self._last:
                continue
            if written == self._last:
                seen += 1
                if seen <= self._count:
                    continue
            else:
                seen = 1
            self._last, self._count, self._read_at = written, seen, time.monotonic()
            self.put(text.decode("utf-8", "replace"))
