"""Start of the training processes: with `torchrun` on this machine, or with a launcher that `flows` provides.

A launcher runs `torchrun_command` on each node, for a folder that all nodes share. The lines that the processes print
are relayed as they come. The folder records how the job ended (`train/status.py`).
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nmt_core.execution import processes

CONFIG = "config.json"
"""File in the folder of a job that the training processes read."""
MAX_RESTARTS = 100
"""Number of times that `torchrun` restarts the processes after one has died, whatever their progress. The processes
give up earlier if they die repeatedly without a new checkpoint (`train/restarts.py`)."""

TRAINING_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    # Otherwise, restarted processes find what the dead ones wrote into the rendezvous' store, and fail or wait forever.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    # Threads that spin while they wait take the CPU from the threads they wait for, if anything else runs here. Without
    # this bound, two threads on two busy cores were 2 to 8 times slower, and no faster on idle ones.
    "GOMP_SPINCOUNT": "10000",
    # Attention has hundreds of shapes, and oneDNN keeps code and scratch memory for the last 1,024: 850 MB more after
    # 300 updates of a small model. An update uses some 60 shapes.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256",
    # Every update allocates and frees its activations. By default, glibc gets each large block from the system and
    # returns it, and the system zeroes it page by page: a sixth of the time of an update (measured on two cores).
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    # Pages of 2 MiB instead of 4 KiB, if the system provides them on request: 10% faster on a virtual machine.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""Environment variables of every training process, unless the user has set them."""

_GRACE_SECONDS = 30


class Notice(str):
    """Line of the launcher itself, such as the state of the job in a queue, among the lines of the processes."""


class Launched(Protocol):
    """Job that has been started."""

    def lines(self) -> Iterator[str]:
        """Yield the lines that the job's processes print, as they come, until all processes have ended.

        The launcher's own lines are a `Notice`.
        """

    def wait(self) -> int:
        """Wait for the end of the job. Return 0 if all processes succeeded."""


class Launcher(Protocol):
    """Launcher of training processes."""

    def launch(self, folder: Path) -> AbstractContextManager[Launched]:
        """Start the job described in `folder`, or attach to it if it is already running.

        Leaving the context early asks the processes for a checkpoint (SIGTERM) and ends them all.
        """


@dataclass(frozen=True)
class Rendezvous:
    """Meeting point of the nodes of a job."""

    nodes: str
    """Number of nodes: "4", or "1:4" for a job that can continue with fewer."""
    processes: str
    """Number of training processes on each node: a number, or "gpu" for one per GPU."""
    endpoint: str
    """Address (host:port) of the node that hosts the rendezvous."""
    job_id: str = "none"
    """Id of the job: equal on all of its nodes, and different from the ids of other jobs."""
    local_address: str | None = None
    """Address at which the other nodes reach this one. None means the address of its host name."""


def torchrun_command(
    folder: Path | str, rendezvous: Rendezvous, python: str = sys.executable, program: str = "torch.distributed.run"
) -> list[str]:
    """Return the command that one node runs for the job in `folder`.

    Args:
        folder: folder of the job.
        rendezvous: meeting point of the nodes.
        python: interpreter on that node.
        program: module that takes the arguments of `torchrun`.
    """
    return [
        *(python, "-m", program),
        *("--nnodes", rendezvous.nodes, "--nproc-per-node", rendezvous.processes),
        *("--max-restarts", str(MAX_RESTARTS), "--rdzv-id", rendezvous.job_id),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", rendezvous.endpoint),
        *(("--local-addr", rendezvous.local_address) if rendezvous.local_address else ()),
        *("-m", "nmt_core.train", "--config", f"{folder}/{CONFIG}"),
    ]


@dataclass(frozen=True)
class LocalTorchrun:
    """Launcher for this machine. The rendezvous uses the loopback interface only."""

    processes: int = 1
    """Number of training processes: one per GPU, or one on the CPU."""
    threads: int = 1
    """Number of CPU threads for all processes together."""

    @contextlib.contextmanager
    def launch(self, folder: Path) -> Iterator[Launched]:
        """Start the training in a folder on this machine, and end it when the block ends."""
        loopback = Rendezvous("1", str(self.processes), "127.0.0.1:0", local_address="127.0.0.1")
        command = torchrun_command(folder.resolve(), loopback)
        process = processes.start(command, self._environment(os.environ), subprocess.PIPE)
        try:
            yield _LocalJob(process)
        except BaseException:
            processes.end(process, _GRACE_SECONDS)
            raise

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        environment = TRAINING_ENVIRONMENT | dict(variables)
        environment["OMP_NUM_THREADS"] = str(max(1, self.threads // self.processes))
        if "GLOO_SOCKET_IFNAME" not in environment and Path("/sys/class/net/lo").exists():
            environment["GLOO_SOCKET_IFNAME"] = "lo"  # with one node, gloo need not listen on other interfaces
        return environment


@dataclass(frozen=True)
class _LocalJob:
    process: subprocess.Popen[bytes]

    def lines(self) -> Iterator[str]:
        assert self.process.stdout
        for line in self.process.stdout:
            yield line.decode("utf-8", "replace").rstrip()

    def wait(self) -> int:
        return self.process.wait()
