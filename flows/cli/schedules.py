"""`nmt schedules`, `nmt pause`, `nmt resume` and `nmt undeploy`: what a Prefect server starts by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import Debug
from flows.cli.deploy import find_server

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

DeployedRecipe = Annotated[
    str, typer.Argument(metavar="RECIPE", help="Name of a deployed recipe (`nmt schedules` lists them), or its file.")
]


def schedules(debug: Debug = False) -> None:
    """List the schedules on the Prefect server: times, next run, whether paused, and the last run."""
    from flows.display.progress import terminal
    from flows.display.tables import terminal_table

    with _server(debug=debug) as client:
        from flows.deployment.schedules import schedule_rows

        rows = schedule_rows(client)
    headings = ("deployment", "runs", "time zone", "next run", "last run", "state")
    console, grid = terminal(to_stderr=False), terminal_table(headings, folded=headings)
    for row in rows:
        upcoming = f"{row.next_run:%Y-%m-%d %H:%M}" if row.next_run else "paused" if row.paused else "none"
        last = f"{row.last_run.astimezone():%Y-%m-%d %H:%M}" if row.last_run else "none"
        grid.add_row(row.deployment, row.when, row.timezone, upcoming, last, row.last_state)
    console.print(grid if rows else "Nothing runs by itself: set schedule.cron in a recipe, then `nmt deploy RECIPE`.")


def pause(recipe: DeployedRecipe, debug: Debug = False) -> None:
    """Pause the schedules of a recipe, and the checks of its text, until `nmt resume`. Running runs continue."""
    _set_paused(recipe, paused=True, debug=debug)


def resume(recipe: DeployedRecipe, debug: Debug = False) -> None:
    """Resume the schedules of a recipe, and the checks of its text."""
    _set_paused(recipe, paused=False, debug=debug)


def undeploy(recipe: DeployedRecipe, debug: Debug = False) -> None:
    """Remove the deployments, schedules and automation of a recipe from the Prefect server."""
    from flows.display.progress import terminal

    name = _name_of(recipe)
    with _server(debug=debug) as client:
        from flows.deployment.schedules import undeploy as remove

        lines = remove(client, name)
    console = terminal(to_stderr=False)
    for line in lines:
        console.print(line, soft_wrap=True)
    console.print(
        f"The runs, artifacts and registered models of {name} are kept: `nmt deploy {recipe}` installs it again.",
        soft_wrap=True,
    )


def _set_paused(recipe: str, *, paused: bool, debug: bool) -> None:
    from flows.display.progress import terminal

    name = _name_of(recipe)
    with _server(debug=debug) as client:
        from flows.deployment.schedules import set_paused

        lines = set_paused(client, name, paused=paused)
    for line in lines:
        terminal(to_stderr=False).print(line, soft_wrap=True)


def _name_of(recipe: str) -> str:
    """Return the name under which a recipe is deployed. A file names its recipe itself."""
    if not Path(recipe).is_file():
        return recipe
    from nmt_core.recipes.recipe import load_recipe

    return load_recipe(recipe).name


@contextmanager
def _server(*, debug: bool) -> "Iterator[SyncPrefectClient]":
    """Connect to the Prefect server of the settings, or of a running `nmt up`.

    Raises:
        ConfigError: no server is known, or it does not answer.
    """
    from flows.settings import Settings

    settings = Settings.load()
    settings.prepare(debug=debug)
    find_server(settings)
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        yield client
