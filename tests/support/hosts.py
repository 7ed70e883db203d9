"""A launcher that runs one node of a training on each host of a network of namespaces."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from nmt_core.execution import processes
from nmt_core.execution.torchrun import TRAINING_ENVIRONMENT, Launched, Rendezvous, torchrun_command
from support.network import Host
from support.until import command_line

PORT = 29_500
_GRACE_SECONDS = 60


@dataclass
class OnHosts:
    """Launcher of training on hosts. `processes` is the number of processes on each host."""

    hosts: list[Host]
    nodes: str = ""
    """Number of nodes, or MIN:MAX. Empty means all hosts."""
    processes: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the processes."""
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    folder: Path = Path()
    _output: int = -1

    @contextlib.contextmanager
    def launch(self, folder: Path) -> Iterator[Launched]:
        """See `Launcher.launch`."""
        self.folder, self.running = folder.resolve(), []
        self._output, writing = os.pipe()
        with os.fdopen(self._output, encoding="utf-8", errors="replace") as lines:
            for number in range(len(self.hosts)):
                self.start(number)
            os.close(writing)
            try:
                yield _Job(self.running, lines)
            finally:
                for process in self.running:
                    processes.end(process, _GRACE_SECONDS)

    def start(self, number: int) -> None:
        """Start the node of a host."""
        host = self.hosts[number]
        endpoint = f"{self.hosts[0].name}:{PORT}"
        meeting = Rendezvous(self.nodes or str(len(self.hosts)), str(self.processes), endpoint, "job")
        command = [*host.within, *torchrun_command(self.folder, meeting, sys.executable, "nmt_core.train.node")]
        environment = {**os.environ, **TRAINING_ENVIRONMENT, **self.settings}
        environment.pop("GLOO_SOCKET_IFNAME", None)  # the tests set the loopback
        output = os.open(f"/proc/self/fd/{self._output}", os.O_WRONLY)  # the other end of the pipe, once more
        self.running.append(processes.start(command, environment, output))
        os.close(output)

    def trains(self, number: int) -> bool:
        """Return True if training processes run on a host."""
        nodes = [process for process in self.running if self.hosts[number].namespace in process.args]
        family = [child for node in nodes if node.poll() is None for child in psutil.Process(node.pid).children(True)]
        return any("nmt_core.train" in (line := command_line(each)) and "--nnodes" not in line for each in family)

    def kill(self, number: int) -> None:
        """Kill the node of a host and all its processes with SIGKILL."""
        eldest = psutil.Process(self.running[number].pid)
        for process in [eldest, *eldest.children(recursive=True)]:
            process.kill()


@dataclass(frozen=True)
class _Job:
    running: list["subprocess.Popen[bytes]"]
    output: Iterator[str]

    def lines(self) -> Iterator[str]:
        for line in self.output:
            yield line.rstrip()

    def wait(self) -> int:
        return next(filter(None, [process.wait() for process in self.running]), 0)
