"""Who starts the processes that train: `torchrun` on this machine, or a launcher that `flows` passes in.

A launcher runs `torchrun_command` on each node, with FOLDER, which all nodes share, written out in it. The lines that
the processes print are relayed as they come; how the job ended, whoever ran it, stands in FOLDER (`train/status.py`).
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
"""What a training process reads, in the folder of its job."""
MAX_RESTARTS = 100
"""How often `torchrun` starts the processes again after one has died, however far they had come. They give up sooner if
they die again and again without a new checkpoint (`train/restarts.py`)."""

TRAINING_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    # Restarted processes else find what the dead ones wrote into the rendezvous' store, and fail or wait for ever.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    # Threads that spin for long while they wait take the CPU from those they wait for, if anything else runs here: two
    # threads on two busy cores were 2 to 8 times slower without this bound, and no faster on idle ones.
    "GOMP_SPINCOUNT": "10000",
    # Attention comes in hundreds of shapes, and oneDNN keeps code and scratch for the last 1,024: 850 MB more after 300
    # updates of a small model. An update uses some 60.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256",
    # Activations come and go with every update. By default glibc takes each large one from the system and gives it
    # back, and the system fills it with zeros page by page: a sixth of the time of an update (measured on two cores).
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    # Pages of 2 MiB in place of 4 KiB, if the system gives them to those who ask: a tenth faster on a virtual machine.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""What every training process wants to find, unless the user has set it."""

_GRACE_SECONDS = 30


class Launched(Protocol):
    """A job that has been started."""

    def lines(self) -> Iterator[str]:
        """Every line that any of its processes prints, as they come, until all have ended."""

    def wait(self) -> int:
        """Wait for the end; 0 if all processes ended well."""


class Launcher(Protocol):
    """Starts training processes."""

    def launch(self, folder: Path) -> AbstractContextManager[Launched]:
        """Start the job that is described in `folder`, or find it if it runs already.

        Leaving the context early asks its processes for a checkpoint (SIGTERM) and ends them all.
        """


@dataclass(frozen=True)
class Rendezvous:
    """Where the nodes of a job meet."""

    nodes: str
    """How many: "4", or "1:4" for a job that goes on with fewer."""
    processes: str
    """Training processes on each: a number, or "gpu" for one per GPU."""
    endpoint: str
    """host:port of the node that the others ask."""
    job_id: str = "none"
    """The same on all nodes, and different from other jobs'."""
    local_address: str = ""
    """Address under which the others reach this node; empty: what its host name resolves to."""


def torchrun_command(folder: Path | str, rendezvous: Rendezvous, python: str = sys.executable) -> list[str]:
    """What one node runs to take its part in the job of `folder`; `python` is the interpreter there."""
    return [
        *(python, "-m", "torch.distributed.run"),
        *("--nnodes", rendezvous.nodes, "--nproc-per-node", rendezvous.processes),
        *("--max-restarts", str(MAX_RESTARTS), "--rdzv-id", rendezvous.job_id),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", rendezvous.endpoint),
        *(("--local-addr", rendezvous.local_address) if rendezvous.local_address else ()),
        *("-m", "nmt_core.train", "--config", f"{folder}/{CONFIG}"),
    ]


@dataclass(frozen=True)
class LocalTorchrun:
    """Training on this machine; the rendezvous stays on the loopback."""

    processes: int = 1
    """Training processes: one per GPU, or one on the CPU."""
    threads: int = 1
    """CPU threads for all of them together."""

    @contextlib.contextmanager
    def launch(self, folder: Path) -> Iterator[Launched]:
        """See `Launcher.launch`."""
        loopback = Rendezvous("1", str(self.processes), "127.0.0.1:0", local_address="127.0.0.1")
        command = torchrun_command(folder.resolve(), loopback)
        process = processes.start(command, self._environment(os.environ), subprocess.PIPE)
        try:
            yield _LocalJob(process)
        except BaseException:
            processes.end(process, _GRACE_SECONDS)
            raise

    def _environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        environment = TRAINING_ENVIRONMENT | dict(ours)
        environment["OMP_NUM_THREADS"] = str(max(1, self.threads // self.processes))
        if "GLOO_SOCKET_IFNAME" not in environment and Path("/sys/class/net/lo").exists():
            environment["GLOO_SOCKET_IFNAME"] = "lo"  # one node: gloo need not listen elsewhere
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
