"""Commands as processes that are forked from one that has imported everything (`zygote.py`).

They have the interface of `Popen`.
"""

import inspect
import json
import os
import re
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows import settings
from support.zygote import QUIET

ANEW = (sys.executable, "-c", "from flows.cli.app import main; main()")
"""Command that starts a new interpreter."""
_READ_AT_START = re.compile(
    r"PYTHON(?!FAULTHANDLER$)|LD_|OMP_|MKL_|KMP_|OPENBLAS_|TORCH_|CUDA_|LC_|LANG$|HOME$|PATH$|MLFLOW_LOGGING_LEVEL$"
)
"""Variables that an interpreter or a library reads as it starts. With others a command starts from nothing."""


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that an interpreter or a library reads as it starts."""
    return {name: value for name, value in environment.items() if _READ_AT_START.match(name)}


class Zygote:
    """Process that has imported everything.

    It starts with the first command, and ends with this process or with `close`.
    """

    def __init__(self, folder: Path, script: str = "zygote.py") -> None:
        self._folder = folder
        self._script = Path(__file__).with_name(script)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Return True if a fork with this environment is the same as a new process."""
        return sys.platform == "linux" and read_at_start(environment) == read_at_start(os.environ)

    def fork(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        files: Sequence[int],
        session: bool,
    ) -> int:
        """Fork a process with these streams and a pipe for its status, and return its id."""
        channel = self._channel or self._start()
        request = {"arguments": arguments, "folder": str(folder), "environment": dict(environment), "session": session}
        socket.send_fds(channel, [json.dumps(request).encode()], list(files))
        answer = channel.recv(100)
        assert answer, f"the process that forks has ended: see {self._folder}/log"
        return int(answer)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("NMT_", "PREFECT_", "MLFLOW_"))
        }
        own |= settings._ENVIRONMENT | QUIET | {"PREFECT_HOME": str(self._folder)}
        self._folder.mkdir(parents=True, exist_ok=True)
        with theirs, (self._folder / "log").open("wb") as log:
            command = [sys.executable, str(self._script), str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        assert ours.recv(100) == b"ready", (self._folder / "log").read_text()
        self._channel = ours
        return ours

    def close(self) -> None:
        """End the process. Forks that still run continue."""
        if self._channel and self._process:
            self._channel.close()
            self._process.wait()
            self._channel = self._process = None


class Forked(subprocess.Popen[str]):
    """Command in a fork. Unlike a `Popen`, it has another parent, which reports its end."""

    def __init__(self, zygote: Zygote, arguments: Sequence[str], **options: Any) -> None:
        self._zygote = zygote
        self._status = -1
        super().__init__(arguments, **options)

    def _execute_child(self, *values: Any) -> None:
        given = inspect.signature(super()._execute_child).bind(*values).arguments
        streams = [given["p2cread"], given["c2pwrite"], given["errwrite"]]
        files = [stream if stream >= 0 else own for own, stream in enumerate(streams)]
        self._status, theirs = os.pipe()
        try:
            session = given["start_new_session"]
            self.pid = self._zygote.fork(list(self.args), given["cwd"], given["env"], [*files, theirs], session)
            self._child_created = True
        finally:
            os.close(theirs)
            ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(given[end] for end in ends))

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        self._look(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if not self._look(timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _look(self, timeout: float | None) -> bool:
        """Wait this long for the end, and return True if the process has ended."""
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            status = os.read(self._status, 100).decode()
            os.close(self._status)
            assert status, "the process that forks has ended before its fork"
            self.returncode = os.waitstatus_to_exitcode(int(status))
        return self.returncode is not None


def start(zygote: Zygote, arguments: Sequence[str], *, anew: bool = False, **options: Any) -> "subprocess.Popen[str]":
    """Start a command in its own process group: as a fork, or as a new interpreter on request or if necessary."""
    options |= {"stdin": subprocess.DEVNULL, "text": True, "start_new_session": True}
    if anew or not zygote.fits(options["env"]):
        return subprocess.Popen([*ANEW, *arguments], **options)
    return Forked(zygote, arguments, **options)
