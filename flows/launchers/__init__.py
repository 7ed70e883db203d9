"""Where training runs: on this machine, on a Slurm cluster, or on Kubernetes. `NMT_LAUNCHER` chooses."""

from pathlib import Path
from typing import Protocol

from flows.settings import Settings
from nmt_core.execution.torchrun import Launcher, LocalTorchrun


class ClusterLauncher(Launcher, Protocol):
    """Submits training to a cluster."""

    def manifest(self, folder: Path) -> str:
        """What would be submitted for the job of a folder."""


def launcher_for(settings: Settings, recipe: str = "") -> Launcher:
    """The launcher that the settings name; `recipe` goes into the name of the job on a cluster."""
    if settings.launcher == "local":
        return LocalTorchrun(settings.processes, settings.threads)
    return cluster_launcher(settings, recipe)


def cluster_launcher(settings: Settings, recipe: str) -> ClusterLauncher:
    """The launcher for a cluster; what it needs is imported now."""
    if settings.launcher == "slurm":
        from flows.launchers.slurm import SlurmLauncher

        return SlurmLauncher(settings, recipe)
    from flows.launchers.kubernetes import KubernetesLauncher

    return KubernetesLauncher(settings, recipe)
