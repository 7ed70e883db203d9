"""Many like tasks on many processors: the same function for each, a path in and a path out.

A stage that is cut into shards says `workers.map(function, tasks)` and does not know who works: this process, child
processes of it, or a cluster (`flows/workers`). A worker may die in the middle of a task, and the task is then
given to another one; so a task writes its result under a temporary name and renames it, and to do it twice does no
harm. Whoever works, the first task that fails raises what it would raise here.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from nmt_core.errors import StageError
from nmt_core.execution import processes
from nmt_core.execution.child import pack, unpack

Task = TypeVar("Task")
Result = TypeVar("Result")

WORKER_ENVIRONMENT = {
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
}
"""Environment of a worker: the processes are the parallelism, and libraries that take all processors would fight."""

ATTEMPTS = 3
"""How many workers may die of the same task."""

_GRACE_SECONDS = 5.0
_SHOWN = 200  # characters of a task in a message


class Workers(Protocol):
    """Someone who does tasks."""

    @property
    def count(self) -> int:
        """How many tasks are done at the same time."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Results in the order of the tasks. Tasks are taken from the iterable as they are needed, not all at once.

        `function` is a module's function; tasks and results are small and can be pickled: large data goes by path.

        Raises:
            NmtError: what a task raises, or StageError for a task whose worker died three times. Any other error of a
                task is raised as well, with the worker's traceback as a note.
        """


class InProcess:
    """Does the tasks itself, one after the other."""

    count = 1

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """See `Workers.map`."""
        return map(function, tasks)


@dataclass(eq=False)
class _Child:
    """One worker process."""

    process: subprocess.Popen[bytes]
    connection: Connection
    environment: Mapping[str, str]
    """What it has beside ours."""
    busy: bool = False

    @staticmethod
    def start(environment: Mapping[str, str]) -> "_Child":
        ours, theirs = socket.socketpair()
        # Our own search path: it must find what we find, from whatever folder and in whatever way we were started.
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from nmt_core.execution.child import serve; "
            f"serve({theirs.fileno()})"
        )
        with theirs:
            command = [sys.executable, "-c", code]
            surroundings = os.environ | WORKER_ENVIRONMENT | dict(environment)
            process = processes.start(command, surroundings, output=2, pass_fds=(theirs.fileno(),))
        return _Child(process, Connection(ours.detach()), environment)


@dataclass
class _UnderWay(Generic[Task, Result]):
    """What has become of the tasks of one `map`. A task's position is its number, from 0."""

    function: Callable[[Task], Result]
    more: Iterator[tuple[int, Task]]
    waiting: list[tuple[int, Task]] = field(default_factory=list)
    """Tasks for the next workers that are free, as a heap: those whose worker has died, and those read ahead."""
    deaths: dict[int, int] = field(default_factory=dict)
    doing: dict[Connection, tuple[_Child, int, Task]] = field(default_factory=dict)
    answers: dict[int, bytes] = field(default_factory=dict)
    following: int = 0
    """Position of the next result."""

    def read(self) -> bool:
        """Read one more task; whether there was one."""
        numbered = next(self.more, None)
        if numbered is not None:
            heappush(self.waiting, numbered)
        return numbered is not None

    def take(self) -> Result:
        result: Result = unpack(self.answers.pop(self.following))
        self.following += 1
        return result

    def died(self, position: int, task: Task, code: int) -> None:
        self.deaths[position] = self.deaths.get(position, 0) + 1
        if self.deaths[position] == ATTEMPTS:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            raise StageError(
                f"a worker process {how}, {ATTEMPTS} times on the same task, {shown(self.function, task)}: if the "
                "machine is short of memory, set NMT_THREADS lower"
            )
        heappush(self.waiting, (position, task))


def shown(function: Callable[[Task], Any], task: Task) -> str:
    """A task for a message."""
    return f"{function.__module__}.{function.__name__} of {repr(task)[:_SHOWN]}"


@dataclass
class LocalWorkers:
    """Child processes of this one. They start with the first tasks and end with `close`, or with this process."""

    count: int
    environments: Sequence[Mapping[str, str]] = ()
    """What each child has beside our environment, if they differ, as in the GPU that is its own: `count` of them. Of
    two children that live at the same time none has that of the other."""
    _children: list[_Child] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all children, and with them what they have in hand."""
        self._end(list(self._children))

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """See `Workers.map`. A single task is done in this process: that is sooner than starting another."""
        rest = iter(tasks)
        first = list(islice(rest, 2))
        if self.count == 1 or len(first) < 2:
            yield from map(function, chain(first, rest))
            return
        under_way = _UnderWay(function, enumerate(chain(first, rest)))
        try:
            while True:
                self._hand_out(under_way)  # also before each result: nobody is idle while the caller works on it
                if under_way.following in under_way.answers:
                    yield under_way.take()
                elif under_way.doing:
                    if not self._read_ahead(under_way):
                        self._await(under_way)
                else:
                    return
        finally:  # an error, or the caller wants no more: nobody waits for what is still being done
            self._end([child for child, _, _ in under_way.doing.values()])

    def _hand_out(self, under_way: _UnderWay[Task, Result]) -> None:
        while len(under_way.doing) < self.count:
            if not under_way.waiting and not (self._has_room(under_way) and under_way.read()):
                return
            position, task = heappop(under_way.waiting)
            order = pack(under_way.function, task)
            child = self._idle()
            child.busy = True
            under_way.doing[child.connection] = child, position, task
            with suppress(OSError):  # it has died in this moment: `_await` sees that
                child.connection.send_bytes(order)

    def _has_room(self, under_way: _UnderWay[Task, Result]) -> bool:
        """Whether to begin more tasks: a slow one must not let the others run far ahead."""
        return len(under_way.answers) < 2 * self.count

    def _read_ahead(self, under_way: _UnderWay[Task, Result]) -> bool:
        """Read a task while all are busy, so that whoever is done first need not wait for that; False to await them."""
        is_wanted = len(under_way.waiting) < self.count and self._has_room(under_way)
        return is_wanted and not wait(list(under_way.doing), timeout=0) and under_way.read()

    def _idle(self) -> _Child:
        for child in [child for child in self._children if not child.busy]:
            if child.process.poll() is None:
                return child
            self._end([child])
        taken = [child.environment for child in self._children]
        child = _Child.start(next((one for one in self.environments if one not in taken), {}))
        self._children.append(child)
        return child

    def _await(self, under_way: _UnderWay[Task, Result]) -> None:
        """Wait until at least one child has answered or died."""
        for connection in wait(list(under_way.doing)):
            assert isinstance(connection, Connection)
            child, position, task = under_way.doing[connection]
            try:
                under_way.answers[position] = connection.recv_bytes()
            except (EOFError, OSError):
                self._end([child])
            del under_way.doing[connection]
            child.busy = False
            if position not in under_way.answers:
                under_way.died(position, task, child.process.returncode)

    def _end(self, children: list[_Child]) -> None:
        for child in children:
            child.connection.close()  # that is what ends it: see `serve`
        for child in children:
            processes.end(child.process, _GRACE_SECONDS)
            if child in self._children:
                self._children.remove(child)
