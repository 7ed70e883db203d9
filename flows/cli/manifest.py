"""`nmt manifest`: print the script or manifest that a run would submit to a cluster."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import Debug, Overrides, Recipe, read_config
from nmt_core.errors import ConfigError

if TYPE_CHECKING:
    from nmt_core.config import PipelineConfig


def manifest(
    recipe: Recipe,
    overrides: Overrides = None,
    launcher: Annotated[
        str,
        typer.Option(help="Name of the launcher: slurm, trainjob or pytorchjob. By default the value of NMT_LAUNCHER."),
    ] = "",
    debug: Debug = False,
) -> None:
    """Print the script or manifest that would be submitted to a cluster to train a recipe."""
    show_manifest(read_config(recipe, overrides, debug=debug), launcher)


def show_manifest(config: "PipelineConfig", launcher: str = "") -> None:
    """Print the script or manifest of a recipe's training.

    Args:
        config: the recipe.
        launcher: name of a launcher. Empty means the one of the settings.

    Raises:
        ConfigError: the launcher is unknown, or submits nothing.
    """
    from flows.launchers import cluster_launcher
    from flows.settings import Settings
    from flows.settings.values import LAUNCHERS
    from nmt_core.stages.table import plan

    settings = Settings.load()
    if launcher:
        settings = replace(settings, launcher=launcher)
    if settings.launcher not in LAUNCHERS[1:]:
        raise ConfigError(
            f"launcher {settings.launcher} submits nothing: choose {', '.join(LAUNCHERS[1:])} with --launcher or "
            "NMT_LAUNCHER"
        )
    (training,) = (planned for planned in plan(config, settings.store) if planned.stage.name == "train")
    print(cluster_launcher(settings, config.name).manifest(settings.store.partial("train", training.fingerprint)))
