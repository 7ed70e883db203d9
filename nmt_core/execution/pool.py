"""Many similar tasks on many processors: one function for all, with paths as input and output.

A stage that works in shards calls `workers.map(function, tasks)`, and need not know whether this process, its children
or a cluster (`flows/workers`) does the work. If a worker dies during a task, another one does the task again. So a task
writes its result under a temporary name and renames it, and can safely be done twice. The first task that fails raises
the same error here as it would without workers.
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
"""Environment of a worker. Parallelism comes from the processes, so libraries must not use all processors
themselves."""

ATTEMPTS = 3
"""Number of workers that may die during the same task."""

_GRACE_SECONDS = 5.0
_SHOWN = 200  # characters of a task in a message


class Workers(Protocol):
    """Workers that do tasks."""

    @property
    def count(self) -> int:
        """Number of tasks that are done at the same time."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the results in the order of the tasks. Tasks are taken from the iterable as they are needed, not all at
        once.

        `function` is a module-level function. Tasks and results are small and can be pickled. Large data is passed by
        path.

        Raises:
            NmtError: a task failed. StageError may also mean that the workers of a task died three times. Any other
                error of a task is raised as well, with the worker's traceback as a note.
        """


class InProcess:
    """Workers that do the tasks in this process, one after the other."""

    count = 1

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Apply a function to each task, in this process, and yield the results in the order of the tasks."""
        return map(function, tasks)


@dataclass(eq=False)
class _Child:
    """Worker process."""

    process: subprocess.Popen[bytes]
    connection: Connection
    environment: Mapping[str, str]
    """Variables that are added to this process's environment."""
    busy: bool = False

    @staticmethod
    def start(environment: Mapping[str, str]) -> "_Child":
        parent_end, child_end = socket.socketpair()
        # The same search path, so that the child finds the same modules, however this process was started.
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from nmt_core.execution.child import serve; "
            f"serve({child_end.fileno()})"
        )
        with child_end:
            command = [sys.executable, "-c", code]
            surroundings = os.environ | WORKER_ENVIRONMENT | dict(environment)
            process = processes.start(command, surroundings, output=2, pass_fds=(child_end.fileno(),))
        return _Child(process, Connection(parent_end.detach()), environment)


@dataclass
class _UnderWay(Generic[Task, Result]):
    """State of the tasks of one `map`. The position of a task is its number, from 0."""

    function: Callable[[Task], Result]
    more: Iterator[tuple[int, Task]]
    waiting: list[tuple[int, Task]] = field(default_factory=list)
    """Tasks for the next free workers, as a heap: tasks whose worker has died, and tasks read ahead."""
    deaths: dict[int, int] = field(default_factory=dict)
    doing: dict[Connection, tuple[_Child, int, Task]] = field(default_factory=dict)
    answers: dict[int, bytes] = field(default_factory=dict)
    following: int = 0
    """Position of the next result."""

    def read(self) -> bool:
        """Read one more task. Return False if there is none."""
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
                "machine is short of memory, lower NMT_THREADS"
            )
        heappush(self.waiting, (position, task))


def shown(function: Callable[[Task], Any], task: Task) -> str:
    """Return a task as text for a message."""
    return f"{function.__module__}.{function.__name__} of {repr(task)[:_SHOWN]}"


@dataclass
class LocalWorkers:
    """Child processes of this process. They start with the first tasks, and end with `close` or with this process."""

    count: int
    environments: Sequence[Mapping[str, str]] = ()
    """Variables that are added to the environment of each child, if they differ, such as its own GPU: `count` mappings.
    No two children that live at the same time get the same one."""
    isolated: bool = False
    """True if no task is done in this process, which a task that dies would end."""
    _children: list[_Child] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all children and their unfinished tasks."""
        self._end(list(self._children))

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Apply a function to each task, in child processes, and yield the results in the order of the tasks.

        A single task is done in this process, which is faster than starting another one, unless `isolated` is set.
        """
        rest = iter(tasks)
        first = list(islice(rest, 2))
        if not self.isolated and (self.count == 1 or len(first) < 2):
            yield from map(function, chain(first, rest))
            return
        under_way = _UnderWay(function, enumerate(chain(first, rest)))
        try:
            while True:
                self._hand_out(under_way)  # also before each result, so that no worker is idle while the caller uses it
                if under_way.following in under_way.answers:
                    yield under_way.take()
                elif under_way.doing:
                    if not self._read_ahead(under_way):
                        self._await(under_way)
                else:
                    return
        finally:  # after an error, or when the caller stops early, unfinished tasks are not needed
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
            with suppress(OSError):  # the child has just died, which `_await` notices
                child.connection.send_bytes(order)

    def _has_room(self, under_way: _UnderWay[Task, Result]) -> bool:
        """Return True if more tasks may begin.

        The others must not run far ahead of a slow one.
        """
        return len(under_way.answers) < 2 * self.count

    def _read_ahead(self, under_way: _UnderWay[Task, Result]) -> bool:
        """Read a task while all workers are busy, so that the first free one need not wait for it.

        Return False if the caller should wait for the workers instead.
        """
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
            child.connection.close()  # this ends the child: see `serve`
        for child in children:
            processes.end(child.process, _GRACE_SECONDS)
            if child in self._children:
                self._children.remove(child)
