"""Data stages on Dask and Ray workers of several hosts: one is killed and comes back, and the network is cut.

Hosts are network namespaces of this machine, with addresses and host names of their own (`support/network.py`).
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
from support.network import Host, Network
from support.shuffles import FIRST_MAP, LATER_MAP, digests, find_copies, write_shards
from support.until import until

from nmt_core.execution import processes
from nmt_core.execution.pool import WORKER_ENVIRONMENT, InProcess

pytestmark = [pytest.mark.cluster, pytest.mark.cpu(120), pytest.mark.timeout(1_800)]

HOSTS = 3
PREFECT = 4_200
SECONDS_OF_A_CUT = 5
GRACE_SECONDS = 30


class Cluster(ABC):
    """Prefect and the head of a cluster on the first host, and a worker on each of the others."""

    address: ClassVar[str]
    """Address of the head in the settings, with its host left open."""

    def __init__(self, hosts: list[Host], folder: Path, database: Path) -> None:
        self.hosts, self.first, self._folder, self.home = hosts, hosts[0].address, folder, folder / "home"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.home.mkdir()
        (folder / "prefect").mkdir()
        shutil.copyfile(database, folder / "prefect" / "prefect.db")
        self._environment = {
            **os.environ,
            **WORKER_ENVIRONMENT,
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": f"http://{self.first}:{PREFECT}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "NMT_HOME": str(self.home),
            "NMT_WORKERS": self.address.format(self.first),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }

    def start(self, name: str, number: int, *words: str, with_own_home: bool = False) -> "subprocess.Popen[bytes]":
        """Start a Python module on a host, with the log `<name>.log`, and on request with an NMT_HOME of its own."""
        own = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(self.home)]
        with self._log(name).open("ab") as log:
            command = [*self.hosts[number].within, *(own if with_own_home else ()), sys.executable, "-m", *words]
            self._running[name] = processes.start(command, self._environment, log)
        return self._running[name]

    def start_all(self) -> None:
        """Start all, and wait until each worker has joined."""
        server = ("server", "start", "--host", self.first, "--port", str(PREFECT), "--no-ui")
        self.start("prefect", 0, "prefect", *server)
        self.start("head", 0, *self._head())
        for number in range(1, len(self.hosts)):
            self.start_worker(number)
            until(lambda joined=number: self.joined() == joined, self.logs, every=0.2)

    def start_worker(self, number: int, *, with_own_home: bool = False) -> None:
        """Start the worker of a host."""
        words = self._worker(self.hosts[number].address)
        self.start(f"worker{number}", number, *words, with_own_home=with_own_home)

    def kill_worker(self, number: int) -> None:
        """Kill the worker of a host, with all of its processes, with SIGKILL."""
        eldest = psutil.Process(self._running[f"worker{number}"].pid)
        for process in [eldest, *eldest.children(recursive=True)]:
            process.kill()

    def said(self, name: str) -> str:
        """Return the log of a process."""
        return self._log(name).read_text(encoding="utf-8", errors="replace") if self._log(name).exists() else ""

    def logs(self) -> str:
        """Return the last lines of all logs."""
        return "\n".join(f"{name}:\n{self.said(name)[-2_000:]}" for name in self._running)

    def end(self) -> None:
        """End all processes, the last one first."""
        for process in reversed(self._running.values()):
            processes.end(process, GRACE_SECONDS)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    @abstractmethod
    def joined(self) -> int:
        """Return the number of workers that have joined the cluster so far."""

    @abstractmethod
    def _head(self) -> Sequence[str]:
        """Return the module and the arguments of the head."""

    @abstractmethod
    def _worker(self, address: str) -> Sequence[str]:
        """Return the module and the arguments of a worker at an address."""


class Dask(Cluster):
    address = "dask://{}:8786"

    def joined(self) -> int:
        return self.said("head").count("Register worker")

    def _head(self) -> Sequence[str]:
        return ("distributed.cli.dask_scheduler", "--host", self.first, "--port", "8786", "--no-dashboard")

    def _worker(self, address: str) -> Sequence[str]:
        own = ("--nthreads", "1", "--memory-limit", "0", "--no-nanny", "--no-dashboard")
        return ("distributed.cli.dask_worker", f"tcp://{self.first}:8786", "--host", address, *own)


class Ray(Cluster):
    address = "ray://{}:10001"

    def joined(self) -> int:
        return sum(self.said(f"worker{number}").count("Ray runtime started") for number in range(1, len(self.hosts)))

    def start_all(self) -> None:
        self._environment["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="ray-")  # a socket's path must be short
        super().start_all()

    def end(self) -> None:
        super().end()
        shutil.rmtree(self._environment["RAY_TMPDIR"])

    def _head(self) -> Sequence[str]:
        return (*self._node(self.first), "--head", "--port", "6379", "--ray-client-server-port", "10001",
                "--include-dashboard", "false")  # fmt: skip

    def _worker(self, address: str) -> Sequence[str]:
        until(lambda: "Ray runtime started" in self.said("head"), self.logs, every=0.2)
        return (*self._node(address), "--address", f"{self.first}:6379")

    @staticmethod
    def _node(address: str) -> Sequence[str]:
        own = ("--num-cpus", "1", "--object-store-memory", "100000000", "--disable-usage-stats", "--block")
        return ("ray.scripts.scripts", "start", "--node-ip-address", address, *own)


@pytest.fixture(params=[Dask, Ray])
def cluster(
    request: pytest.FixtureRequest, joined: Network, tmp_path: Path, prefect_database: Path
) -> Iterator[Cluster]:
    made: Cluster = request.param(joined.hosts, tmp_path, prefect_database)
    with contextlib.ExitStack() as stack:
        stack.callback(made.end)
        made.start_all()
        yield made


def test_a_killed_worker_and_a_cut_network_change_no_byte(joined: Network, cluster: Cluster, tmp_path: Path) -> None:
    shards, alone, scratch = (tmp_path / name for name in ("shards", "alone", "scratch"))
    for folder in (shards, alone, scratch):
        folder.mkdir()
    write_shards(shards)
    find_copies(shards, alone, InProcess())
    work = cluster.start("work", 0, "support.shuffles", str(shards), str(scratch))

    def comes(file: str) -> bool:
        assert (scratch / file).exists() or work.poll() is None, cluster.logs()
        return (scratch / file).exists()

    until(lambda: comes(FIRST_MAP), cluster.logs)
    cluster.kill_worker(1)
    cluster.start_worker(1)
    until(lambda: comes(LATER_MAP), cluster.logs)
    joined.set(cut=True)
    time.sleep(SECONDS_OF_A_CUT)
    assert work.poll() is None, "the workers that it needs are away"
    joined.set()
    until(lambda: work.poll() is not None, cluster.logs, every=0.2)
    assert work.returncode == 0, cluster.logs()
    assert digests(scratch) == digests(alone)
    until(lambda: cluster.joined() == len(joined.hosts), cluster.logs)  # both workers, and the one that came back


def test_a_host_whose_folder_is_not_shared_is_refused(joined: Network, cluster: Cluster, tmp_path: Path) -> None:
    """The folder exists there under the same path, as on two machines with disks of their own."""
    cluster.kill_worker(1)
    cluster.start_worker(1, with_own_home=True)
    until(lambda: cluster.joined() == len(joined.hosts), cluster.logs, every=0.2)
    (tmp_path / "shards").mkdir()
    write_shards(tmp_path / "shards")
    work = cluster.start("work", 0, "support.shuffles", str(tmp_path / "shards"), str(tmp_path))
    until(lambda: work.poll() is not None, cluster.logs, every=0.2)
    assert work.returncode == 1
    said = cluster.said("work")
    assert "ConfigError" in said and joined.hosts[1].address in said, said
    assert f"the folder NMT_HOME ({cluster.home}) is another one, but must be the same as on this machine" in said
