"""`nmt up`: run Prefect, MLflow and a worker on this machine until Ctrl-C."""

import contextlib
import time

from flows.cli.arguments import Debug, DeployedRecipes, check_recipes
from flows.cli.interruption import Stopped, interruptible
from nmt_core.errors import ConfigError

_SECONDS_BETWEEN_CHECKS = 0.5


def up(recipes: DeployedRecipes = None, debug: Debug = False) -> None:
    """Run Prefect, MLflow and a worker with all deployments on this machine, until Ctrl-C."""
    from flows.deployment.local_servers import start_all
    from flows.display.progress import terminal
    from flows.servers.servers import ServerError
    from flows.settings import Settings

    settings = Settings.load()
    running = settings.running()
    if running.prefect:
        raise ConfigError(
            f"{settings.home}: `nmt up` already runs here, with Prefect at {running.prefect}: use that one, or stop it"
        )
    check_recipes(recipes or (), settings)
    settings.prepare()
    console = terminal(to_stderr=False)
    try:
        with interruptible(), contextlib.ExitStack() as stack:
            console.print("Starting Prefect and MLflow ...")
            servers = start_all(settings, recipes or (), stack, console)
            console.print("Press Ctrl-C to stop everything.", style="dim")
            while not (ended := [server for server in servers if server.ended()]):
                time.sleep(_SECONDS_BETWEEN_CHECKS)
            raise ServerError(f"{ended[0].name} has ended: see {ended[0].log}")
    except Stopped:
        console.print("Everything has stopped.")
        raise
