"""Where training runs: on this machine, on a Slurm cluster, or on Kubernetes. `NMT_LAUNCHER` chooses."""

from flows.settings import Settings
from nmt_core.launchers import Launcher, LocalTorchrun


def launcher_for(settings: Settings) -> Launcher:
    """The launcher that the settings name."""
    return LocalTorchrun(settings.processes, settings.threads)
