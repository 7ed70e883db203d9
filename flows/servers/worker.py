"""A worker that ends in order: SIGTERM and Ctrl-C reach its runs first, and it ends after them.

    python -P -m flows.servers.worker --pool cpu --type process        # arguments of `prefect worker start`

By itself, a worker of Prefect's kills its runs at SIGTERM and is gone. Training hears of that, and still writes a
checkpoint; but a container ends with its first process, and then nobody is left to write one, or to tell Prefect and
MLflow. A worker that is killed (SIGKILL) leaves its runs alone, as Prefect's does.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import psutil

from nmt_core.execution.processes import bound_to_us, note_signals

_GRACE_SECONDS = 75.0  # of the 90 that compose and Kubernetes give us
_SECONDS_FOR_THE_WORKER = 10.0
_SECONDS_BETWEEN_LOOKS = 0.25


def supervise(
    command: Sequence[str], grace: float = _GRACE_SECONDS, clock: Callable[[], float] = time.monotonic
) -> int:
    """Run a worker, whose child processes are its runs, until it ends or we are told to end it.

    Args:
        command: program and arguments.
        grace: seconds that the runs get to end by themselves.
        clock: seconds, for the grace.

    Returns:
        The exit code of the worker; 0 if it was ended by us.
    """
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    told = note_signals(*former)
    # In a session of its own: Ctrl-C is for us alone
    worker = subprocess.Popen(bound_to_us(command, signal.SIGKILL), start_new_session=True)
    try:
        while worker.poll() is None and not told:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        if worker.poll() is not None:
            return worker.returncode
        _end_runs(psutil.Process(worker.pid), grace, clock)
        worker.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(_SECONDS_FOR_THE_WORKER)
        return 0
    finally:
        worker.kill()
        worker.wait()
        for number, handler in former.items():
            signal.signal(number, handler)


def _end_runs(worker: psutil.Process, grace: float, clock: Callable[[], float]) -> None:
    """SIGTERM to each run, also to one that the worker starts meanwhile; return when all have ended, or time is up."""
    told: set[psutil.Process] = set()
    deadline = clock() + grace
    with contextlib.suppress(psutil.NoSuchProcess):
        while (runs := _alive(worker.children())) and clock() < deadline:
            for run in runs - told:
                with contextlib.suppress(psutil.NoSuchProcess):
                    run.terminate()
            told |= runs
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _alive(processes: Sequence[psutil.Process]) -> set[psutil.Process]:
    return {process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE}


if __name__ == "__main__":
    os.environ["PYTHONSAFEPATH"] = "1"  # of runs too: a folder here that is called `flows` must not hide ours
    sys.exit(supervise([sys.executable, "-m", "flows.servers.isolated", "prefect", "worker", "start", *sys.argv[1:]]))
