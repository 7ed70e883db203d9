"""Child processes and their descendants: none outlives this process, and none is killed without a warning.

Processes of this package receive the warning through `note_signals`. Each process has a name that no other process ever
had, unlike its id (see `this_process`).
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

# Replaces itself with the given program, which keeps the `prctl` setting, unless its parent has died meanwhile.
_BOUND_TO_ITS_PARENT = """
import ctypes, os, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(sys.argv[1]))
if os.getppid() == int(sys.argv[2]):
    os.execvp(sys.argv[3], sys.argv[3:])
"""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_TICKS = 19  # index among the fields of /proc/PID/stat after the name, which may contain spaces


def bound_to_us(command: Sequence[str], number: int = signal.SIGTERM) -> list[str]:
    """Return the command that runs a program so that it gets a signal when the thread that starts it ends (Linux).

    This costs 12 ms. The `preexec_fn` of `subprocess.Popen` would do the same in no time, but then Python itself forks.
    A signal that raises an exception during that fork is lost, and leaves the lock of `logging` held.
    """
    if sys.platform != "linux":
        return [*command]
    return [sys.executable, "-I", "-S", "-c", _BOUND_TO_ITS_PARENT, str(int(number)), str(os.getpid()), *command]


def start(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | int, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a command in its own session, so that Ctrl-C reaches only this process.

    On Linux, the command gets SIGTERM when this process dies.

    Args:
        command: program and arguments.
        environment: all of its environment variables.
        output: file, or `subprocess.PIPE`, for both stdout and stderr.
        pass_fds: additional open files that it inherits.
    """
    return subprocess.Popen(
        bound_to_us(command),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=pass_fds,
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes], grace: float) -> None:
    """End a process and all of its descendants: SIGTERM to the process, after `grace` seconds to all, then SIGKILL.

    The process itself comes first because it knows best how to end the others: torchrun passes the signal on to its
    ranks, each of which is in its own session. It must never be killed before them.
    """
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        eldest = psutil.Process(process.pid)
        family = [eldest, *eldest.children(recursive=True)]
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=grace)
    for member in family:  # psutil compares start times, so a reused process id is never hit
        with contextlib.suppress(psutil.NoSuchProcess):
            member.terminate()
    for member in reversed(psutil.wait_procs(family, timeout=grace)[1]):
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait()


def note_signals(*numbers: int) -> list[int]:
    """Record signals in the returned list, for a loop that checks it when it is ready to end.

    A `threading.Event` would not work. When a scheduler and a launcher both pass SIGTERM on, the second one arrives on
    the same thread while the first is being recorded, and would wait forever for the event's lock.
    """
    noted: list[int] = []
    for number in numbers:
        signal.signal(number, lambda number, _: noted.append(number))
    return noted


def this_process() -> str:
    """Return a name of this process that no process on any machine ever had: host, id and start time."""
    return _name_of(psutil.Process(os.getpid()))


def is_gone(name: str) -> bool:
    """Return True if a process of this machine has ended. Nothing is known of processes on other machines.

    Args:
        name: name that `this_process` returned in that process.
    """
    return _is_of_this_machine(name) and not _runs(name)


def is_here(name: str) -> bool:
    """Return True if a process is running on this machine.

    Its `name` is the result of `this_process` in that process.
    """
    return _is_of_this_machine(name) and _runs(name)


def _is_of_this_machine(name: str) -> bool:
    host, _, rest = name.partition(" ")
    return host == socket.gethostname() and rest.partition(" ")[0].isdigit()


def _runs(name: str) -> bool:
    try:
        there = psutil.Process(int(name.split(" ")[1]))
        # A container without an init process does not reap orphaned zombies
        return _name_of(there) == name and there.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return False


def _name_of(process: psutil.Process) -> str:
    return f"{socket.gethostname()} {process.pid} {_start_of(process)}"


def _start_of(process: psutil.Process) -> str:
    """Return the start time of a process.

    On Linux, these are ticks since a certain boot, which no change of the clock affects.
    """
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:  # not Linux
        return f"{process.create_time():.0f}"
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return f"{boot}/{fields[_START_TICKS]}"
