"""Worker process: the main loop of a child of `pool.LocalWorkers`, and its orders and answers.

Both ends are processes of this package, on one machine or in one cluster, so they exchange pickled data.
"""

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar

Task = TypeVar("Task")


def pack(function: Callable[[Task], Any], task: Task) -> bytes:
    """Return an order for `perform`."""
    return pickle.dumps((function, task))


def perform(order: bytes) -> bytes:
    """Do a task, and return an answer for `unpack`. Any exception of the task is part of the answer."""
    try:
        function, task = pickle.loads(order)
        return pickle.dumps((function(task), []))
    except BaseException as error:  # not even `sys.exit` in a task may end a worker
        errors = [_portable(cause) for cause in _with_causes(error)]
        errors[0].add_note("raised in a worker process:\n" + traceback.format_exc().rstrip())
        return pickle.dumps((None, errors))


def unpack(answer: bytes) -> Any:
    """Return the result of a task.

    Raises:
        Exception: the exception of the task, with its causes.
    """
    result, errors = pickle.loads(answer)
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    if errors:
        raise errors[0]
    return result


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, which pickle leaves out. A full disk may be recognisable by its cause only."""
    while error:
        yield error
        error = error.__cause__ or error.__context__


def _portable(error: BaseException) -> Exception:
    """Return the error itself if it survives pickling, or else an error with the same message."""
    with suppress(Exception):  # its attributes cannot be pickled, or its class cannot be made from `args`
        if isinstance(error, Exception) and str(pickle.loads(pickle.dumps(error))) == str(error):
            return error
    return RuntimeError("".join(traceback.format_exception_only(type(error), error)).strip())


def serve(handle: int) -> None:
    """Run a child process: do the tasks that arrive, and end as soon as the other end of the connection is closed.

    The parent closes the connection deliberately or by dying, whichever of its threads started this process. Signals
    are handled by the parent: Ctrl-C is meant for it, and SIGTERM may only mean that the thread that started this
    process has ended (see `processes.start`).
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which programs that a task starts would inherit
    orders: SimpleQueue[bytes] = SimpleQueue()
    connection = Connection(handle)
    threading.Thread(target=_receive, args=(connection, orders), daemon=True).start()
    while True:
        answer = perform(orders.get())
        with suppress(OSError):  # the parent is gone, which `_receive` notices
            connection.send_bytes(answer)


def _receive(connection: Connection, orders: SimpleQueue[bytes]) -> None:
    try:
        while True:
            orders.put(connection.recv_bytes())
    except (EOFError, OSError):
        os.kill(0, signal.SIGKILL)  # the whole session, with an unfinished task and the processes that it has started
