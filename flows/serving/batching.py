"""Batches across requests: lines that wait at the same time are translated together.

No line waits for others. A free thread takes its share of the lines that are waiting at that moment, so batches are
small while there is little to do, and grow with the load.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Generic, NamedTuple, TypeVar

from nmt_core.errors import counted

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

MOST_LINES = 64
"""Lines of a batch. More of them are no faster, and keep the first one waiting."""


class OverloadedError(Exception):
    """More lines are waiting than the service holds."""


class _Waiting(NamedTuple, Generic[Key, Result]):
    key: Key
    line: str
    future: "Future[Result]"


class Batcher(Generic[Key, Result]):
    """Threads that compute waiting lines in batches.

    Args:
        compute: function of a key and lines that returns a result for each line. Lines with different keys, such as
            different options of the search, are never in one batch.
        threads: number of batches that are computed at the same time.
        most_waiting: number of lines that may wait.
    """

    def __init__(
        self, compute: Callable[[Key, Sequence[str]], Sequence[Result]], threads: int, most_waiting: int
    ) -> None:
        self._compute = compute
        self._most_waiting = most_waiting
        self._waiting: deque[_Waiting[Key, Result]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.sizes: Counter[int] = Counter()
        """Number of batches of each size so far."""
        self._threads = [threading.Thread(target=self._work, name=f"translate-{n}") for n in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Number of lines that wait for a thread."""
        return len(self._waiting)

    def submit(self, key: Key, lines: Sequence[str]) -> list["Future[Result]"]:
        """Queue lines, all of them or none.

        Raises:
            OverloadedError: there is no room for them.
        """
        added = [_Waiting[Key, Result](key, line, Future()) for line in lines]
        with self._changed:
            if self._closed or len(self._waiting) + len(added) > self._most_waiting:
                raise OverloadedError(
                    f"{counted(len(self._waiting), 'waiting line')}, and there may be {self._most_waiting:,}"
                )
            self._waiting += added
            self._changed.notify(len(added))
        return [waiting.future for waiting in added]

    def close(self) -> None:
        """Compute what is waiting, and end the threads. Lines that are submitted later are refused."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            self.sizes[len(batch)] += 1
            try:
                results = self._compute(batch[0].key, [waiting.line for waiting in batch])
                pairs = list(zip(batch, results, strict=True))
            except BaseException as error:  # each request gets the error, and the thread lives on
                for waiting in batch:
                    waiting.future.set_exception(error)
            else:
                for waiting, result in pairs:
                    waiting.future.set_result(result)

    def _next_batch(self) -> list[_Waiting[Key, Result]]:
        """Wait for lines, and take a thread's share of them. Nothing is left if the result is empty."""
        with self._changed:
            while True:
                batch, later = list[_Waiting[Key, Result]](), deque[_Waiting[Key, Result]]()
                share = min(MOST_LINES, -(-len(self._waiting) // len(self._threads)))
                while self._waiting and len(batch) < share:
                    one = self._waiting.popleft()
                    if batch and one.key != batch[0].key:
                        later.append(one)
                    elif one.future.set_running_or_notify_cancel():  # False if its client has gone
                        batch.append(one)
                self._waiting.extendleft(reversed(later))
                if batch or (self._closed and not self._waiting):
                    return batch
                if not self._waiting:
                    self._changed.wait()
