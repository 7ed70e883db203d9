"""Launchers of training: on this machine, on a Slurm cluster, or on Kubernetes. `NMT_LAUNCHER` chooses one."""

from pathlib import Path
from typing import Protocol

from flows.settings import Settings
from nmt_core.execution.torchrun import Launcher, LocalTorchrun


class ClusterLauncher(Launcher, Protocol):
    """Launcher that submits training to a cluster."""

    def manifest(self, folder: Path) -> str:
        """Return the text that would be submitted for the job of a folder."""


def launcher_for(settings: Settings, recipe: str = "") -> Launcher:
    """Return the launcher of the settings. `recipe` becomes part of the job's name on a cluster."""
    if settings.launcher == "local":
        return LocalTorchrun(settings.processes, settings.threads)
    return cluster_launcher(settings, recipe)


def cluster_launcher(settings: Settings, recipe: str) -> ClusterLauncher:
    """Return the launcher for a cluster, and import its libraries."""
    if settings.launcher == "slurm":
        from flows.launchers.slurm import SlurmLauncher

        return SlurmLauncher(settings, recipe)
    from flows.launchers.kubernetes import KubernetesLauncher

    return KubernetesLauncher(settings, recipe)
