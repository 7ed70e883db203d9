"""Kind of a machine, and what it has free: a forecast compares runs of the same kind of machine."""

import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from flows.settings import Settings
from nmt_core.execution.memory import free_memory

_CPU_INFO = Path("/proc/cpuinfo")
_GPU_INFO = Path("/proc/driver/nvidia/gpus")


class Machine(BaseModel):
    """Kind of a machine, as far as it decides how fast stages run."""

    model_config = ConfigDict(frozen=True)
    cpu: str
    """Model of the CPU as the system names it."""
    threads: int
    """Number of CPU threads that stages may use."""
    gpus: tuple[str, ...] = ()
    """Models of the GPUs that training uses."""
    training: str = "local"
    """Launcher of training, with its number of nodes on a cluster."""
    workers: str = "local"
    """Kind of the workers of the data stages."""

    @classmethod
    def of(cls, settings: Settings) -> "Machine":
        """Return the kind of this machine under its settings."""
        is_local = settings.launcher == "local"
        return cls(
            cpu=_cpu(),
            threads=settings.threads,
            gpus=_gpus(settings.gpus)[: settings.processes] if is_local else (),
            training="local" if is_local else f"{settings.launcher}, nodes {settings.nodes}",
            workers=settings.workers.partition("://")[0],
        )

    @property
    def name(self) -> str:
        """Short description for messages."""
        threads = f"{self.threads} CPU thread{'s' if self.threads > 1 else ''}"
        return f"{len(self.gpus)} x {self.gpus[0]}, {threads}" if self.gpus else f"{self.cpu}, {threads}"


def _cpu() -> str:
    """Return the model of the CPU, or its architecture where the system names no model."""
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _gpus(visible: Sequence[str]) -> tuple[str, ...]:
    """Return the model of each GPU that this process may use, or "GPU" where the driver names none."""
    models = []
    for file in sorted(_GPU_INFO.glob("*/information")):
        lines = file.read_text(encoding="utf-8").splitlines()
        models += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return tuple((models + ["GPU"] * len(visible))[: len(visible)])


@dataclass(frozen=True)
class Free:
    """Disk space, memory and processors that are free."""

    disk: int
    memory: int
    memory_limit: int | None
    """Limit of the container in bytes, if it leaves less memory than the machine has free."""
    load: float = 0.0
    """Number of programs that wanted to compute at one time, on average over the last minute, for each CPU."""

    @classmethod
    def of(cls, folder: Path) -> "Free":
        """Return what is free for a store in `folder`, which need not exist."""
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        memory = free_memory()
        load = psutil.getloadavg()[0] / (psutil.cpu_count() or 1)
        return cls(shutil.disk_usage(there).free, memory.bytes, memory.limit, load)
