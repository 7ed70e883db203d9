"""Child processes that we own to their last descendant: none outlives us, and none is killed without warning.

Those that are ours hear the warning by `note_signals`. A process keeps a name for life that none had before it, which
its id is not: see `this_process`.
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

# Becomes the program that it is given, which keeps what `prctl` has set. Its parent may have died meanwhile.
_BOUND_TO_ITS_PARENT = """
import ctypes, os, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(sys.argv[1]))
if os.getppid() == int(sys.argv[2]):
    os.execvp(sys.argv[3], sys.argv[3:])
"""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_TICKS = 19  # of the fields of /proc/PID/stat that follow the name, which may hold spaces


def bound_to_us(command: Sequence[str], number: int = signal.SIGTERM) -> list[str]:
    """Return the command under which a program gets a signal when the thread that starts it ends (Linux).

    It costs 12 ms. The `preexec_fn` of `subprocess.Popen` would do the same in no time, but it has Python fork itself:
    a signal that is obeyed by an exception, and comes during that, is dropped, and leaves the lock of `logging` held.
    """
    if sys.platform != "linux":
        return [*command]
    return [sys.executable, "-I", "-S", "-c", _BOUND_TO_ITS_PARENT, str(int(number)), str(os.getpid()), *command]


def start(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | int, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, so that Ctrl-C is for us alone; it gets SIGTERM when we die (Linux).

    Args:
        command: program and arguments.
        environment: all of its environment.
        output: file, or `subprocess.PIPE`, for both of its streams.
        pass_fds: further open files that it inherits.
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
    """End a process and all that descends from it: SIGTERM to the eldest, after `grace` seconds to all, then SIGKILL.

    The eldest comes first because it knows best how to end the others (torchrun passes the signal on to its ranks, each
    of which is in a session of its own); it must never be killed before them.
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
    """Have signals noted, in the list that is returned, for a loop that looks at it when it is ready to end.

    A `threading.Event` would not do: when a scheduler and a launcher both pass SIGTERM on, the second comes while the
    first is being noted, on the same thread, and would wait for ever for the event's lock.
    """
    noted: list[int] = []
    for number in numbers:
        signal.signal(number, lambda number, _: noted.append(number))
    return noted


def this_process() -> str:
    """Return a name for this process that no other process of any machine has had: host, id, and when it started."""
    return _name_of(psutil.Process(os.getpid()))


def is_gone(name: str) -> bool:
    """Whether a process of this machine has ended; of others nothing is known.

    Args:
        name: as `this_process` gave it, in that process.
    """
    return _is_of_this_machine(name) and not _runs(name)


def is_here(name: str) -> bool:
    """Whether a process runs on this machine; its `name` is as `this_process` gave it there."""
    return _is_of_this_machine(name) and _runs(name)


def _is_of_this_machine(name: str) -> bool:
    host, _, rest = name.partition(" ")
    return host == socket.gethostname() and rest.partition(" ")[0].isdigit()


def _runs(name: str) -> bool:
    try:
        there = psutil.Process(int(name.split(" ")[1]))
        # In a container, whose first process is no init, nobody buries the children of the dead
        return _name_of(there) == name and there.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return False


def _name_of(process: psutil.Process) -> str:
    return f"{socket.gethostname()} {process.pid} {_start_of(process)}"


def _start_of(process: psutil.Process) -> str:
    """When a process started: ticks since a boot, which no setting of the clock changes, where Linux tells."""
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:  # no Linux
        return f"{process.create_time():.0f}"
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return f"{boot}/{fields[_START_TICKS]}"
