"""Handling of Ctrl-C and SIGTERM: stop once and clean up undisturbed."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS_UNTIL_EXIT = 3
_SECONDS_UNTIL_REPEATED = 0.01


class Stopped(BaseException):
    """End of the work by a signal. The exit code is 128 plus the signal's number, as in a shell (130 for Ctrl-C)."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Stop the block at the first SIGINT or SIGTERM, ignore the second, and exit the process at the third.

    Inside the block both signals raise KeyboardInterrupt, after which libraries clean up.

    Raises:
        Stopped: a signal arrived.
    """
    # Import polars before the handlers are set: it installs its own handler of SIGINT (with SA_RESTART), under which a
    # read continues to wait. Ctrl-C would have no effect until a training prints its next line.
    importlib.import_module("polars")
    signals: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        if len(signals) == 1:
            raise KeyboardInterrupt
        if len(signals) >= _SIGNALS_UNTIL_EXIT:
            os._exit(128 + number)

    def repeat_lost_signal(unraisable: Any) -> None:
        """Send a signal again a moment later, if Python dropped the exception because a destructor was running."""
        if signals and issubclass(unraisable.exc_type, KeyboardInterrupt):
            number = signals.pop()
        elif unraisable.exc_type.__name__ == "TerminationSignal":  # of Prefect, which handles SIGTERM while a flow runs
            number = unraisable.exc_value.signal
        else:
            former_hook(unraisable)
            return
        threading.Timer(_SECONDS_UNTIL_REPEATED, os.kill, (os.getpid(), number)).start()

    former_hook, sys.unraisablehook = sys.unraisablehook, repeat_lost_signal
    former = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
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
