"""A worker process, and how it is told of a task: life of a child of `workers.LocalWorkers`, and orders and answers.

Both ends are processes of ours, on one machine or in one cluster: what travels is pickled.
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
    """An order for `perform`."""
    return pickle.dumps((function, task))


def perform(order: bytes) -> bytes:
    """Do a task. There is always an answer for `unpack`: whatever the task raises travels in it."""
    try:
        function, task = pickle.loads(order)
        return pickle.dumps((function(task), []))
    except BaseException as error:  # `sys.exit` is no way to end a task, and must not end a worker
        errors = [_portable(each) for each in _with_causes(error)]
        errors[0].add_note("raised in a worker process:\n" + traceback.format_exc().rstrip())
        return pickle.dumps((None, errors))


def unpack(answer: bytes) -> Any:
    """The result of a task.

    Raises:
        Exception: what the task has raised, with its causes.
    """
    result, errors = pickle.loads(answer)
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    if errors:
        raise errors[0]
    return result


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what is behind it, which pickle leaves out; a full disk may be known by its cause alone."""
    while error:
        yield error
        error = error.__cause__ or error.__context__


def _portable(error: BaseException) -> Exception:
    """The error itself if it survives pickling, or one that says the same."""
    with suppress(Exception):  # its attributes cannot be pickled, or its class cannot be made from `args`
        if isinstance(error, Exception) and str(pickle.loads(pickle.dumps(error))) == str(error):
            return error
    return RuntimeError("".join(traceback.format_exception_only(type(error), error)).strip())


def serve(handle: int) -> None:
    """Life of a child process: do what comes, and end as soon as the other end of the connection is closed.

    The parent closes it by will or by dying, whichever thread of it started us. Signals are its business: Ctrl-C is
    for the parent, and SIGTERM may only mean that the thread that started us has ended (see `processes.start`).
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which programs that a task starts would inherit
    orders: SimpleQueue[bytes] = SimpleQueue()
    connection = Connection(handle)
    threading.Thread(target=_receive, args=(connection, orders), daemon=True).start()
    while True:
        answer = perform(orders.get())
        with suppress(OSError):  # the parent has gone: `_receive` sees that
            connection.send_bytes(answer)


def _receive(connection: Connection, orders: SimpleQueue[bytes]) -> None:
    try:
        while True:
            orders.put(connection.recv_bytes())
    except (EOFError, OSError):
        os.kill(0, signal.SIGKILL)  # all of our session: also a task that nobody waits for, and what it has started
