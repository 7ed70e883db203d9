"""Worker with an orderly shutdown: SIGTERM and Ctrl-C reach its runs first, and it ends after them.

    python -P -m flows.servers.worker --pool cpu --type process        # arguments of `prefect worker start`

On SIGTERM, Prefect's own worker kills its runs and ends. Training notices that, and still writes a checkpoint. But a
container ends with its first process, and then no process is left to write a checkpoint or to update Prefect and
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

_GRACE_SECONDS = 75.0  # of the 90 s that compose and Kubernetes grant
_SECONDS_FOR_THE_WORKER = 10.0
_SECONDS_BETWEEN_LOOKS = 0.25


def supervise(
    command: Sequence[str], grace: float = _GRACE_SECONDS, clock: Callable[[], float] = time.monotonic
) -> int:
    """Run a worker, whose child processes are its runs, until it ends or a signal arrives.

    Args:
        command: Program and arguments.
        grace: Seconds for the runs to end by themselves.
        clock: Clock in seconds, for the grace.

    Returns:
        Exit code of the worker, or 0 if a signal ended it.
    """
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signals = note_signals(*former)
    # In a session of its own, which Ctrl-C does not reach
    worker = subprocess.Popen(bound_to_us(command, signal.SIGKILL), start_new_session=True)
    try:
        while worker.poll() is None and not signals:
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
    """Send SIGTERM to each run, including runs that the worker starts meanwhile.

    Return when all have ended, or when the time is over.
    """
    terminated: set[psutil.Process] = set()
    deadline = clock() + grace
    with contextlib.suppress(psutil.NoSuchProcess):
        while (runs := _alive(worker.children())) and clock() < deadline:
            for run in runs - terminated:
                with contextlib.suppress(psutil.NoSuchProcess):
                    run.terminate()
            terminated |= runs
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _alive(processes: Sequence[psutil.Process]) -> set[psutil.Process]:
    return {process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE}


def main(arguments: Sequence[str]) -> int:
    """Run a worker with the arguments of `prefect worker start`, and return its exit code.

    Help and wrong arguments are answered before anything is started.
    """
    code = _answered(arguments)
    if code is not None:
        return code
    from flows.servers.late_runs import NO_SERVER, knows_a_server

    if not knows_a_server():
        print(NO_SERVER, file=sys.stderr)
        return 2
    os.environ["PYTHONSAFEPATH"] = "1"  # a folder `flows` in the working folder must not hide this package in runs
    impatient = os.environ | {"PREFECT_CLIENT_MAX_RETRIES": "2"}  # the worker itself waits for a server that is away
    subprocess.run([sys.executable, "-m", "flows.servers.late_runs"], check=False, env=impatient)  # before it takes any
    return supervise([sys.executable, "-m", "flows.servers.isolated", "prefect", "worker", "start", *arguments])


def _answered(arguments: Sequence[str]) -> int | None:
    """Print help or what is wrong with the arguments, and return the exit code. None means that they are right."""
    from cyclopts import CycloptsError
    from prefect.cli.worker import start, worker_app

    try:
        command, bound, _ = worker_app.parse_args(
            ["start", *arguments], exit_on_error=False, print_error=False, help_on_error=False
        )
    except CycloptsError as error:
        print(
            f"nmt: {str(error).rstrip('.')}: `python -P -m flows.servers.worker --help` lists the options",
            file=sys.stderr,
        )
        return 2
    if command is not start:
        command(*bound.args, **bound.kwargs)
        return 0
    if not bound.arguments.get("work_pool_name"):
        print("nmt: the worker needs a work pool: give --pool NAME, such as --pool cpu", file=sys.stderr)
        return 2
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
