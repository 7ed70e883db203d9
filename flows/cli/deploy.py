"""`nmt deploy` and `nmt worker`: use a Prefect server that runs elsewhere."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import Debug, DeployedRecipes, check_recipes
from nmt_core.errors import ConfigError

if TYPE_CHECKING:
    from flows.deployment.deployments import Entry
    from flows.settings import Settings


def deploy(
    recipes: DeployedRecipes = None,
    pool: Annotated[str, typer.Option(help="Name of the work pool, which is created if it does not exist.")] = "cpu",
    gpu_pool: Annotated[
        str,
        typer.Option(
            help="Work pool of flows that train. By default `gpu` if that exists, otherwise the one of --pool."
        ),
    ] = "",
    schedule: Annotated[
        str | None,
        typer.Option(metavar="CRON", help='Schedule of retrainings, in place of those in the recipes; "" means none.'),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be installed, as a table.")] = False,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Only print the deployments in the form of a prefect.yaml.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Install deployments, schedules and automations on the Prefect server. Repeating it changes nothing."""
    from flows.display.progress import terminal
    from flows.settings import Settings

    settings = Settings.load()
    check_recipes(recipes or (), settings)
    settings.prepare()
    if not (dry_run or as_yaml):
        find_server(settings)
    from flows.deployment.deployments import Pools, prefect_yaml, table
    from flows.deployment.installation import install

    entries = table(recipes or (), schedule)
    if as_yaml:
        print(prefect_yaml(entries, Pools(pool, gpu_pool or pool)), end="")
    elif dry_run:
        _show(entries, pool, gpu_pool)
    else:
        console = terminal(to_stderr=False)
        for line in install(entries, Pools(pool, gpu_pool)):
            console.print(line, soft_wrap=True)


def _show(entries: "Sequence[Entry]", pool: str, gpu_pool: str) -> None:
    from flows.display.progress import terminal
    from flows.display.tables import terminal_table

    headings = ("deployment", "work pool", "schedule")
    console, grid = terminal(to_stderr=False), terminal_table(headings, folded=headings)
    for entry in entries:
        when = f"{entry.cron} ({entry.timezone})" if entry.cron else ""
        grid.add_row(entry.full_name, (gpu_pool or "gpu, otherwise " + pool) if entry.trains else pool, when)
    console.print(grid)
    console.print("Nothing was installed.")


def worker(
    pool: Annotated[str, typer.Option(help="Work pool to take flow runs from.")] = "cpu", debug: Debug = False
) -> None:
    """Execute flow runs of the Prefect server in processes on this machine, until Ctrl-C."""
    from flows.servers.servers import worker_arguments, worker_environment
    from flows.settings import Settings

    settings = Settings.load()
    settings.prepare()
    find_server(settings)
    os.environ.update(worker_environment(settings))
    os.execv(sys.executable, [sys.executable, "-m", "flows.servers.worker", *worker_arguments(pool)])


def find_server(settings: "Settings") -> None:
    """Set PREFECT_API_URL, which Prefect reads when it is imported.

    Raises:
        ConfigError: no server is known, or it does not answer.
    """
    from flows.servers.servers import require_prefect, use_known_prefect

    remedy = "set PREFECT_API_URL, or start one with `nmt up`"
    url = use_known_prefect(settings)
    if not url:
        raise ConfigError(f"no Prefect server is known: {remedy}")
    require_prefect(url, remedy)
