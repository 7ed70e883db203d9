"""`nmt deploy` and `nmt worker`: what an operator does with a Prefect server of their own."""

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
    pool: Annotated[str, typer.Option(help="Work pool; made if it is not there.")] = "cpu",
    gpu_pool: Annotated[
        str, typer.Option(help="Work pool of whatever trains; left out: gpu if there is one, else that of --pool.")
    ] = "",
    schedule: Annotated[
        str | None, typer.Option(metavar="CRON", help='When to retrain, if not as the recipes say; "": never.')
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be installed.")] = False,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Only print the deployments, as a prefect.yaml of your own.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Install deployments, schedules and automations on the Prefect server. Doing it again changes nothing."""
    from flows.display.progress import terminal
    from flows.settings import Settings

    settings = Settings.load()
    check_recipes(recipes or (), settings)
    settings.prepare()
    if not (dry_run or as_yaml):
        _find_server(settings)
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
    from rich import box
    from rich.table import Table

    from flows.display.progress import terminal

    console, shown = terminal(to_stderr=False), Table(box=box.SIMPLE_HEAD)
    for column in ("deployment", "runs on", "by itself"):
        shown.add_column(column, overflow="fold")
    for entry in entries:
        when = f"{entry.cron} ({entry.timezone})" if entry.cron else ""
        shown.add_row(entry.full_name, (gpu_pool or "gpu, or else " + pool) if entry.trains else pool, when)
    console.print(shown)
    console.print("Nothing has been installed.")


def worker(pool: Annotated[str, typer.Option(help="The work pool to work for.")] = "cpu", debug: Debug = False) -> None:
    """Run what the Prefect server hands out, in processes of this machine, until Ctrl-C."""
    from flows.servers.servers import worker_arguments, worker_environment
    from flows.settings import Settings

    settings = Settings.load()
    settings.prepare()
    _find_server(settings)
    os.environ.update(worker_environment(settings))
    os.execv(sys.executable, [sys.executable, "-m", "flows.servers.worker", *worker_arguments(pool)])


def _find_server(settings: "Settings") -> None:
    """Set PREFECT_API_URL, which Prefect reads when it is imported."""
    from flows.servers.servers import require_prefect, use_known_prefect

    remedy = "set PREFECT_API_URL, or start one with `nmt up`"
    url = use_known_prefect(settings)
    if not url:
        raise ConfigError(f"Prefect runs nowhere that we know of: {remedy}")
    require_prefect(url, remedy)
