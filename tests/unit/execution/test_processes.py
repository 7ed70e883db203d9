"""Children end with their descendants: on request, then by force, and when their parent dies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
from support.until import patient, until

from nmt_core.execution import processes

_STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)
_WITH_A_CHILD = (
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True); "
    "print(child.pid, flush=True); child.wait()"
)

_ASKED_WHILE_BEING_ASKED = """
import os, signal, sys
from nmt_core.execution.processes import note_signals

asked = note_signals(signal.SIGTERM)
for moment in range(20):  # each call and return while the first is being noted
    events = iter(range(1_000))

    def ask_again(*_):
        if next(events) == moment:
            os.kill(os.getpid(), signal.SIGTERM)

    sys.setprofile(ask_again)
    os.kill(os.getpid(), signal.SIGTERM)
    sys.setprofile(None)
    print(len(asked), flush=True)
"""


def start(*arguments: str) -> "subprocess.Popen[bytes]":
    return processes.start([sys.executable, "-c", *arguments], os.environ, subprocess.PIPE)


def line_of(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout
    return process.stdout.readline().decode().strip()


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_process_hears_the_request_and_may_finish() -> None:
    process = start(
        "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print('ready', flush=True); signal.pause()"
    )
    assert line_of(process) == "ready"
    processes.end(process, grace=patient(60))
    assert process.returncode == 7


def test_one_that_does_not_listen_is_killed() -> None:
    process = start(_STUBBORN)
    assert line_of(process) == "ready"
    processes.end(process, grace=0.3)
    assert process.returncode == -signal.SIGKILL


def test_descendants_in_sessions_of_their_own_end_too() -> None:
    process = start(_WITH_A_CHILD, _STUBBORN)
    child = int(line_of(process))
    assert line_of(process) == "ready"
    processes.end(process, grace=0.3)
    assert process.returncode is not None
    until(lambda: ended(child))


def test_a_process_that_has_ended_already_is_no_trouble() -> None:
    process = start("print('ready', flush=True)")
    process.wait()
    processes.end(process, grace=0.3)
    assert process.returncode == 0


def test_children_end_when_we_are_killed(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys, time; from nmt_core.execution import processes\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "child = processes.start(sleep, os.environ, subprocess.DEVNULL)\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child = int(line_of(parent))
    parent.kill()
    parent.wait()
    until(lambda: ended(child))


def test_children_end_that_were_started_as_we_died(tmp_path: Path) -> None:
    """The parent that the children look for is no longer theirs."""
    started = tmp_path / "started"
    command = processes.bound_to_us(["touch", str(started)])
    of_nobody = ["0" if argument == str(os.getpid()) else argument for argument in command]
    subprocess.run(of_nobody, check=True)
    assert not started.exists()
    subprocess.run(command, check=True)
    assert started.exists()


def test_python_does_not_fork_itself_where_a_signal_could_be_lost() -> None:
    """Functions that Python calls after a fork, such as the release of the lock of `logging`, drop exceptions."""
    code = (
        "import os, subprocess, sys; from nmt_core.execution import processes\n"
        "os.register_at_fork(before=lambda: print('forked', flush=True))\n"
        "processes.start([sys.executable, '-c', ''], os.environ, subprocess.DEVNULL).wait()"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == ""


def test_a_second_request_may_come_while_the_first_is_being_noted() -> None:
    """This happens when a cluster signals all processes of a job, and the launcher forwards the signal to its ranks."""
    process = start(_ASKED_WHILE_BEING_ASKED)
    try:
        out, _ = process.communicate(timeout=patient(20))
    finally:
        process.kill()
    counts = [int(line) for line in out.split()]
    assert len(counts) == 20
    assert counts[:5] == [2, 4, 6, 8, 10], "both were noted, whenever the second came"
