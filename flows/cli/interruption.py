"""Ctrl-C and SIGTERM: stop once, cleanly, and let nothing disturb the cleaning up."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_LAST_STRAW = 3
_SECONDS_UNTIL_AGAIN = 0.01


class Stopped(BaseException):
    """A signal ended the work; the exit code is what a shell expects of that signal (130 for Ctrl-C)."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Stop the block at the first SIGINT or SIGTERM; ignore the second, for the first is being obeyed; then leave.

    Inside, both are a KeyboardInterrupt, which libraries know how to clean up after.

    Raises:
        Stopped: one came.
    """
    # Now and not later: when it is imported, polars takes SIGINT over in a way (SA_RESTART) that leaves a read waiting.
    # Ctrl-C would then be obeyed at the next line that a training prints, whenever that is.
    importlib.import_module("polars")
    signals: list[int] = []

    def obey(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        if len(signals) == 1:
            raise KeyboardInterrupt
        if len(signals) >= _LAST_STRAW:
            os._exit(128 + number)

    def obey_again(unraisable: Any) -> None:
        """Python drops what is raised inside a destructor: the signal comes again, a moment later."""
        if signals and issubclass(unraisable.exc_type, KeyboardInterrupt):
            number = signals.pop()
        elif unraisable.exc_type.__name__ == "TerminationSignal":  # Prefect's, which has SIGTERM while a flow runs
            number = unraisable.exc_value.signal
        else:
            former_hook(unraisable)
            return
        threading.Timer(_SECONDS_UNTIL_AGAIN, os.kill, (os.getpid(), number)).start()

    former_hook, sys.unraisablehook = sys.unraisablehook, obey_again
    former = {number: signal.signal(number, obey) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except BaseException as error:
        if signals and not isinstance(error, Exception):
            raise Stopped(signals[0]) from None
        raise
    finally:
        sys.unraisablehook = former_hook
        for number, handler in former.items():
            signal.signal(number, handler)
