"""What whoever operates the servers types: `up`, `deploy`, `worker`, `reconcile`. `cli.py` takes them in."""

from typing import Annotated

import typer

from flows.cli.arguments import Debug

operations = typer.Typer()

Recipes = Annotated[
    list[str] | None,
    typer.Argument(help="Names or paths of recipes; left out: those of the package, with stages of the first."),
]


@operations.command()
def up(recipes: Recipes = None, debug: Debug = False) -> None:
    """Start the Prefect and MLflow servers, the deployments and a worker on this machine, until Ctrl-C."""
    from flows.cli.up import up

    up(recipes or [])


@operations.command()
def deploy(
    recipes: Recipes = None,
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
    from flows.cli.deploy import deploy

    deploy(recipes or [], pool, gpu_pool, schedule, "yaml" if as_yaml else "table" if dry_run else "")


@operations.command()
def worker(pool: Annotated[str, typer.Option(help="The work pool to work for.")] = "cpu", debug: Debug = False) -> None:
    """Run what the Prefect server hands out, in processes of this machine, until Ctrl-C."""
    from flows.cli.deploy import worker

    worker(pool)


@operations.command()
def reconcile(
    close_unknown: Annotated[
        bool, typer.Option("--close-unknown", help="Also close runs whose flow run this Prefect server does not know.")
    ] = False,
    debug: Debug = False,
) -> None:
    """End flow runs whose machine is gone, and close MLflow runs whose flow run or process has ended."""
    from flows.cli.deploy import reconcile

    reconcile(close_unknown=close_unknown)
