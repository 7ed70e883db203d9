"""Nothing outlives a run of pytest, however it ends.

Tests start servers, commands and trainings, most of them in sessions of their own, and fixtures end them. Often pytest
has no time for its fixtures: xdist kills its workers ten seconds after Ctrl-C, and a training needs longer to save and
end. After SIGKILL no fixture runs at all. So a run marks its environment, which all its processes inherit, and has a
keeper. The keeper is a process that waits for the end of pytest, and then ends all processes with the mark.

Tests that start a process with another environment add `mark` to it.
"""

import contextlib
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import psutil

_MARK = "PYTEST_RUN"
_SECONDS_BETWEEN_LOOKS = 0.2
_GRACE_SECONDS = 90.0  # what a container gives: training writes a checkpoint


def pytest_addoption(parser: Any) -> None:
    """Add the option `--grace`."""
    text = "seconds that processes which tests leave behind have to end by themselves"
    parser.addoption("--grace", type=float, default=_GRACE_SECONDS, help=text)


def pytest_configure(config: Any) -> None:
    """Mark the environment and start the keeper. A worker of xdist has inherited both."""
    if hasattr(config, "workerinput"):
        return
    own, outer = uuid.uuid4().hex, dict(os.environ)
    os.environ[_MARK] = own
    command = [sys.executable, str(Path(__file__)), str(os.getpid()), own, str(config.option.grace)]
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        # Its only mark belongs to the run of pytest that started this one, if there is one. So it never ends itself.
        subprocess.Popen(command, env=outer, stdin=subprocess.DEVNULL, start_new_session=True)


def mark() -> dict[str, str]:
    """Return the variable by which the keeper knows the processes of an environment."""
    return {_MARK: os.environ[_MARK]}


def _keep(run: int, own: str, grace: float) -> None:
    """Wait until a run of pytest has ended, then end the processes that it has left, and name them."""
    while os.getppid() == run:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    for member in (left := _marked(own)):
        with contextlib.suppress(psutil.Error):
            print(f"left behind by tests: {member.pid} {' '.join(member.cmdline())[:200]}", file=sys.stderr)
            member.terminate()
    alive = psutil.wait_procs(left, timeout=grace)[1]
    while alive:  # what they have started meanwhile, too
        for member in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(alive, timeout=grace)
        alive = _marked(own)


def _marked(own: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(_MARK) == own and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


if __name__ == "__main__":
    _keep(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
