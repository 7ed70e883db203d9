"""Processes of a training, forked from one that has imported (`rank_zygote.py`), and a launcher that starts them so.

To start Python and import what trains takes more than three CPU-seconds, and `torchrun` two more. A fork runs the
same program in the same environment as a process that `torchrun` has started, and the processes meet each other by
gloo as those do. What it does not show: `torchrun` itself, which starts anew what has died, and the imports. Tests that
are about these take `LocalTorchrun`.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt_core.execution.torchrun import CONFIG, Launched
from support.forked import Forked, Zygote


class Ranks:
    """Starter of processes that know their ranks in a group."""

    def __init__(self, folder: Path) -> None:
        self._zygote = Zygote(folder, "rank_zygote.py")

    def start(
        self, arguments: Sequence[str], port: int, processes: int, *, nodes: int = 1, output: int = subprocess.PIPE
    ) -> list[subprocess.Popen[str]]:
        """Start the processes, in the order of their ranks.

        Args:
            arguments: of the interpreter: `-m` and a module, or `-c` and a text, and its arguments.
            port: port of the loopback on which they meet.
            processes: number of processes.
            nodes: number of nodes that they believe to be on.
            output: file descriptor for their output.
        """
        local = processes // nodes
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        group |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(local)}
        places = ({"RANK": str(rank), "LOCAL_RANK": str(rank % local)} for rank in range(processes))
        return [self._start(arguments, os.environ | group | place, output) for place in places]

    def _start(self, arguments: Sequence[str], environment: dict[str, str], output: int) -> subprocess.Popen[str]:
        options = {"env": environment, "cwd": str(Path.cwd()), "stdin": subprocess.DEVNULL, "stdout": output}
        options |= {"stderr": None if output == subprocess.PIPE else subprocess.STDOUT, "text": True}
        if self._zygote.fits(environment):
            return Forked(self._zygote, arguments, **options)
        return subprocess.Popen([sys.executable, "-u", *arguments], **options)

    def launcher(self, processes: int = 1) -> "ForkedRanks":
        """Return the replacement of `LocalTorchrun`."""
        return ForkedRanks(self, processes)

    def close(self) -> None:
        """End the forking process."""
        self._zygote.close()


@dataclass(frozen=True)
class ForkedRanks:
    """Launcher like `LocalTorchrun` that restarts no process."""

    ranks: Ranks
    processes: int

    @contextlib.contextmanager
    def launch(self, folder: Path) -> Iterator[Launched]:
        """See `Launcher.launch`."""
        from flows.servers.servers import held_port

        program = ("-m", "nmt_core.train", "--config", str(folder.resolve() / CONFIG))
        output, theirs = os.pipe()
        with held_port() as port, os.fdopen(output, encoding="utf-8", errors="replace") as lines:
            try:
                running = self.ranks.start(program, port, self.processes, output=theirs)
            finally:
                os.close(theirs)
            try:
                yield _Job(running, lines)
            except BaseException:
                for process in running:
                    process.terminate()
                raise
            finally:
                for process in running:
                    process.wait()


@dataclass(frozen=True)
class _Job:
    running: list[subprocess.Popen[str]]
    output: Iterator[str]

    def lines(self) -> Iterator[str]:
        for line in self.output:
            yield line.rstrip()

    def wait(self) -> int:
        return next(filter(None, [process.wait() for process in self.running]), 0)
