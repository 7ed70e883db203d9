"""A Slurm cluster on this machine: the real controller and two nodes, as processes that end with the cluster.

The programs come from Debian's packages slurmctld, slurmd, slurm-client and munge. They must run as root.
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from flows.servers.servers import held_port
from support.until import until, until_gone

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
NODES = ("node0", "node1")

_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldPort={ports[0]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
NodeName=node0 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 RealMemory=1000
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class SlurmCluster:
    """A running cluster of two nodes, as tests see it."""

    def __init__(self, folder: Path, ports: tuple[int, ...]) -> None:
        self.folder = folder
        self.configuration = folder / "slurm.conf"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        text = _CONFIGURATION.format(folder=folder, host=socket.gethostname().partition(".")[0], ports=ports)
        for name in ("state", "munge", *(f"spool-{node}" for node in NODES)):
            (folder / name).mkdir()
        self.configuration.write_text(text)
        key = folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(1_024))
        key.chmod(0o400)

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment of commands that use the cluster."""
        return os.environ | {"SLURM_CONF": str(self.configuration)}

    def start(self) -> None:
        """Start everything, and wait until both nodes accept jobs."""
        munge = self.folder / "munge"
        options = {"socket": "socket", "key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
        self._start("munged", "--foreground", "--force", *(f"--{name}={munge / at}" for name, at in options.items()))
        until((munge / "socket").exists, "munged does not start")
        self.start_controller()
        for node in NODES:
            self.start_node(node)

    def start_controller(self) -> None:
        """Start the controller, which finds its jobs again."""
        self._start("slurmctld", "-D", "-f", str(self.configuration))
        until(lambda: self.do("sinfo", check=False).returncode == 0, self.logs)

    def start_node(self, node: str) -> None:
        """Start a node, and wait until it accepts jobs. A node that was marked down is resumed."""
        self._start(node, "-D", "-N", node, "-f", str(self.configuration), program="slurmd")

        def is_there() -> bool:
            if self.state(node).startswith(
                ("down", "drain")
            ):  # refused where the node has come back by itself meanwhile
                self.do("scontrol", "update", f"nodename={node}", "state=resume", check=False)
            return self.state(node) in {"idle", "mixed", "allocated"}

        until(is_there, self.logs, every=0.2)

    def kill(self, name: str) -> None:
        """Kill the controller or a node with SIGKILL. A node takes its jobs with it."""
        self._processes.pop(name).kill()
        if name in NODES:
            for process in self.processes_on(name):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    @contextlib.contextmanager
    def with_full_spools(self) -> Iterator[None]:
        """Leave no space for the batch scripts of jobs on any node in the block. Afterwards, all nodes accept jobs."""
        folders = [self.folder / f"spool-{node}" for node in NODES]
        for node, folder in zip(NODES, folders, strict=True):
            self.kill(node)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", folder], check=True)
            self.start_node(node)
            with (folder / "fill").open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 1_024)
        try:
            yield
        finally:
            for node, folder in zip(NODES, folders, strict=True):
                self.kill(node)
                subprocess.run(["umount", "--lazy", folder], check=True)
                self.start_node(node)

    def lose(self, node: str) -> None:
        """Kill a node, and have the controller notice at once instead of after minutes."""
        self.kill(node)
        self.do("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def processes_on(self, node: str) -> list[psutil.Process]:
        """Return the processes of jobs on a node, with their supervisors: the parents of others."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                environment = process.environ()
                if environment.get("SLURMD_NODENAME") == node and self._is_ours(environment):
                    watching = process.parent()
                    found += [process, *([watching] if watching and "slurmstepd" in watching.name() else [])]
        return list(dict.fromkeys(found))

    def do(self, *command: str, check: bool = True, user: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command of Slurm."""
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=check, user=user, cwd=self.folder
        )

    def state(self, node: str) -> str:
        """State of a node, such as idle or down*."""
        return self.do("sinfo", "--noheader", f"--nodes={node}", "--format=%T").stdout.strip()

    def jobs(self) -> list[str]:
        """Numbers of the jobs that have not ended."""
        return self.do("squeue", "--noheader", "--format=%i").stdout.split()

    def job(self, number: str) -> dict[str, str]:
        """Return the controller's description of a job."""
        words = self.do("scontrol", "show", "job", number).stdout.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def begin_now(self, number: str) -> None:
        """Start a job that was requeued, which would otherwise wait for two minutes."""
        until(lambda: self.job(number)["JobState"] == "PENDING", lambda: str(self.job(number)))
        self.do("scontrol", "update", f"job={number}", "StartTime=now", "TimeLimit=UNLIMITED")

    def logs(self) -> str:
        """Last lines of all logs, for the message of a failing test."""
        return "\n".join(f"{file.name}: {file.read_text()[-2_000:]}" for file in sorted(self.folder.glob("*.log")))

    def clear(self) -> None:
        """End all jobs, and start what was killed."""
        for name in ("slurmctld", *NODES):
            if name not in self._processes:
                self.start_controller() if name == "slurmctld" else self.start_node(name)
        for number in self.jobs():
            self.do("scancel", number, check=False)
        self._kill_what_runs()
        until(lambda: not self.jobs(), lambda: self.do("squeue").stdout)

    def stop(self) -> None:
        """End all jobs and then the cluster."""
        left = self._kill_what_runs()
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in self._processes.values():
            process.wait()
        until_gone(left)

    def _kill_what_runs(self) -> list[psutil.Process]:
        left = [process for node in NODES for process in self.processes_on(node)]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return left

    def _is_ours(self, environment: Mapping[str, str]) -> bool:
        return environment.get("SLURM_CONF") == str(self.configuration)

    def _start(self, name: str, *arguments: str, program: str = "") -> None:
        with (self.folder / f"{name}.out").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [program or name, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, start_new_session=True, cwd=self.folder,  # where a daemon that aborts leaves its core
            )  # fmt: skip


def missing() -> str:
    """Return the reason why no cluster can run here, or an empty string."""
    absent = [program for program in PROGRAMS if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")]
    if absent:
        return f"no {', '.join(absent)}: apt-get install slurmctld slurmd slurm-client munge, or `make cluster`"
    return "" if os.getuid() == 0 else "Slurm's nodes need root"


@contextlib.contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """Run a cluster for the time of the block."""
    with contextlib.ExitStack() as stack:
        ports = tuple(stack.enter_context(held_port()) for _ in range(3))
        # Not below pytest's folder, which no other user may enter.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        cluster = SlurmCluster(folder, ports)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
