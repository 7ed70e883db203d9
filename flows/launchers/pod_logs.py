"""Logs of many pods as one stream of lines: none is lost when a connection breaks, and none comes twice.

A stream that breaks is taken up a little before its last line; lines carry the time at which they were written, by
which those that have been seen already are known.
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
"""Seconds by which a log is read again before its last line: clocks, and what was under way."""


class PodLogs:
    """Follows each pod that it is told of in a thread of its own."""

    def __init__(self, api: ClusterApi, pause: float) -> None:
        """`pause`: seconds before a stream that has ended is taken up again."""
        self._api = api
        self._pause = pause
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._followers: dict[str, threading.Thread] = {}
        self._stop = threading.Event()

    def follow(self, pod: str) -> None:
        """Follow a pod from its first line on, unless that is done already."""
        if pod not in self._followers:
            follower = _Follower(self._api, pod, self._lines.put, self._stop, self._pause)
            thread = threading.Thread(target=follower.run, name=f"log of {pod}", daemon=True)
            self._followers[pod] = thread
            thread.start()

    def next_line(self, timeout: float) -> str | None:
        """The next line of any pod, or None if there is none for `timeout` seconds."""
        try:
            return self._lines.get(timeout=timeout)
        except queue.Empty:
            return None

    def rest(self, timeout: float) -> list[str]:
        """The last lines, once all containers have ended; waits `timeout` seconds at most for what is under way."""
        deadline = time.monotonic() + timeout
        for thread in self._followers.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        lines = []
        while not self._lines.empty():
            lines.append(self._lines.get())
        return lines

    def stop(self) -> None:
        """Follow no more."""
        self._stop.set()


@dataclass
class _Follower:
    """Follows one pod, through restarts of its container."""

    api: ClusterApi
    pod: str
    put: Callable[[str], None]
    stop: threading.Event
    pause: float
    _last: bytes = b""
    """Time of the last line, as the log has it."""
    _count: int = 0
    """Lines that had that very time."""
    _read_at: float | None = field(default=None)
    """When the last line came, by our own clock."""

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                pod = self.api.pod(self.pod)  # asked first: what is read after the end is all there is
                self._read()
                if pod is None or pod.has_ended:
                    return
            except (NoAnswerError, ConfigError):  # the container is not there yet, or the server is away
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
