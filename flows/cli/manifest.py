"""`nmt manifest`: what would be submitted to a cluster, without submitting it."""

from dataclasses import replace

from flows.launchers import cluster_launcher
from flows.settings import Settings
from flows.settings.values import LAUNCHERS
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.stages.table import plan


def show_manifest(config: PipelineConfig, launcher: str = "") -> None:
    """Print the script or the manifest of a recipe's training; `launcher` replaces that of the settings.

    Raises:
        ConfigError: there is no such launcher, or it submits nothing.
    """
    settings = Settings.load()
    if launcher:
        settings = replace(settings, launcher=launcher)
    if settings.launcher not in LAUNCHERS[1:]:
        raise ConfigError(
            f"launcher {settings.launcher} submits nothing: choose {', '.join(LAUNCHERS[1:])} by --launcher or "
            "NMT_LAUNCHER"
        )
    (training,) = (planned for planned in plan(config, settings.store) if planned.stage.name == "train")
    print(cluster_launcher(settings, config.name).manifest(settings.store.partial("train", training.fingerprint)))
