"""`nmt deploy`, `nmt worker` and `nmt reconcile`: what an operator does with a Prefect server of his own."""

import os
import sys
from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.table import Table

from flows.display.progress import terminal
from flows.servers.servers import PrefectApi, require_prefect, use_known_prefect, worker_arguments, worker_environment
from flows.settings import Settings
from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.table import plan


def deploy(
    recipes: Sequence[str], pool: str, gpu_pool: str, schedule: str | None, show: Literal["", "table", "yaml"]
) -> None:
    """Install all deployments on the Prefect server, or only show them: as a table, or as a `prefect.yaml`.

    Raises:
        ConfigError: a recipe or a schedule is wrong, or no server answers.
    """
    settings = Settings.load()
    check_recipes(recipes, settings)
    settings.prepare()
    if not show:
        _find_server(settings)
    from flows.deployment.deployments import Pools, prefect_yaml, table
    from flows.deployment.installation import install

    entries, console = table(recipes, schedule), terminal(to_stderr=False)
    if show == "yaml":
        print(prefect_yaml(entries, Pools(pool, gpu_pool or pool)), end="")
        return
    if not show:
        for line in install(entries, Pools(pool, gpu_pool)):
            console.print(line, soft_wrap=True)
        return
    shown = Table(box=box.SIMPLE_HEAD)
    for column in ("deployment", "runs on", "by itself"):
        shown.add_column(column, overflow="fold")
    for entry in entries:
        when = f"{entry.cron} ({entry.timezone})" if entry.cron else ""
        shown.add_row(entry.full_name, (gpu_pool or "gpu, or else " + pool) if entry.trains else pool, when)
    console.print(shown)
    console.print("Nothing has been installed.")


def check_recipes(recipes: Sequence[str], settings: Settings) -> None:
    """Check recipes as `nmt plan` does: what is wrong with one, or with its files, is said before anything starts.

    Raises:
        NmtError: a recipe is not there, is wrong, or names files that are not there.
    """
    for recipe in recipes:
        plan(load_recipe(recipe), settings.store)


def worker(pool: str) -> None:
    """Become a worker for a work pool, with the environment that flow runs want.

    Raises:
        ConfigError: no server answers.
    """
    settings = Settings.load()
    settings.prepare()
    _find_server(settings)
    os.environ.update(worker_environment(settings))
    os.execv(sys.executable, [sys.executable, "-m", "flows.servers.worker", *worker_arguments(pool)])


def reconcile(*, close_unknown: bool) -> None:
    """End flow runs whose machine is gone, close MLflow runs that nobody owns any more, and say which."""
    settings = Settings.load()
    settings.prepare()
    console = terminal(to_stderr=False)
    with PrefectApi(settings).connected() as api:
        from mlflow.tracking import MlflowClient
        from prefect.client.orchestration import get_client

        from flows.servers.heartbeats import end_silent, heartbeat_seconds
        from flows.servers.reconcile import close_orphans

        def say(line: str) -> None:
            console.print(line, soft_wrap=True)

        api.wait()
        with get_client(sync_client=True) as prefect:
            end_silent(prefect, say, heartbeat_seconds())
            found = close_orphans(MlflowClient(settings.mlflow_tracking_uri), prefect, unknown=close_unknown)
    for run in found:
        did = run.status or "left alone"
        say(f"{run.run_id}  {run.name}: {did}: {run.why}")
    closed = sum(bool(run.status) for run in found)
    say(f"{closed} runs closed, {len(found) - closed} left alone")


def _find_server(settings: Settings) -> None:
    """Set PREFECT_API_URL, which Prefect reads when it is imported."""
    remedy = "set PREFECT_API_URL, or start one with `nmt up`"
    url = use_known_prefect(settings)
    if not url:
        raise ConfigError(f"Prefect runs nowhere that we know of: {remedy}")
    require_prefect(url, remedy)
