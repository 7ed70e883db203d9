"""Servers of `nmt up`: Prefect, MLflow and a worker on this machine, with all deployments installed."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from flows.servers.secret import kept_secret, opening_address
from flows.servers.servers import Server, held_port, start_mlflow, start_prefect, start_worker, use_prefect
from flows.settings import Settings
from flows.tracking.pages import start_page
from flows.tracking.paging import read_all
from nmt_core.execution.processes import this_process

_POOL = "cpu"


def start_all(
    settings: Settings, recipes: Sequence[str], stack: contextlib.ExitStack, console: Console
) -> list[Server]:
    """Start the servers and a worker, install all deployments, and print the addresses.

    Args:
        settings: settings of this machine.
        recipes: recipes to deploy; see `flows.deployment.deployments.table`.
        stack: exit stack that stops everything when it closes.
        console: console to print to.

    Returns:
        The processes that were started.

    Raises:
        NmtError: a server does not start, or ends.
    """
    ports = (stack.enter_context(held_port(port)) for port in (settings.prefect_port, settings.mlflow_port))
    prefect_port, mlflow_port = ports
    prefect_url, mlflow_url = (f"http://127.0.0.1:{port}" for port in (prefect_port, mlflow_port))
    secret = kept_secret(settings.secret_file)
    use_prefect(f"{prefect_url}/api", secret)
    servers = [stack.enter_context(_owned(start_prefect(settings, prefect_port, secret, embedded=False)))]
    from flows.deployment.deployments import Pools, table  # this import takes seconds, in which Prefect starts
    from flows.deployment.installation import install

    entries = table(recipes)
    if not settings.mlflow_tracking_uri.startswith("http"):
        from flows.tracking.mlflow_tracker import open_database  # also takes seconds

        open_database(settings.mlflow_tracking_uri)
        servers.append(stack.enter_context(_owned(start_mlflow(settings, mlflow_port))))
        servers[-1].wait_until(f"{mlflow_url}/health")
    else:
        mlflow_url = settings.mlflow_shown  # the file of servers is used only for links
    servers[0].wait_until(f"{prefect_url}/api/health")
    stack.enter_context(_announced(settings.servers_file, prefect_url, mlflow_url))
    install(entries, Pools(_POOL, _POOL))
    _clean_up(settings, console)
    servers.append(stack.enter_context(_owned(start_worker(settings, _POOL))))
    prefect_page = _shown(prefect_url, secret, settings, console)
    console.print(f"Prefect  {prefect_page}\nMLflow   {_runs(mlflow_url, settings)}", soft_wrap=True)
    return servers


def _shown(prefect_url: str, secret: str, settings: Settings, console: Console) -> str:
    """Return the address of Prefect's pages. Only a terminal shows the secret, because others may read a log."""
    if console.is_terminal:
        return opening_address(prefect_url, secret)
    return f"{prefect_url}, with the password in {settings.secret_file}"


def _runs(mlflow_url: str, settings: Settings) -> str:
    """Return the address of MLflow's page with the latest runs."""
    from mlflow.tracking import MlflowClient

    return start_page(mlflow_url, read_all(MlflowClient(settings.mlflow_tracking_uri).search_experiments))


def _clean_up(settings: Settings, console: Console) -> None:
    """Close runs that a killed `nmt up` has left open, which would take the slots of new runs, and skip late runs."""
    from mlflow.tracking import MlflowClient
    from prefect.client.orchestration import get_client

    from flows.servers.late_runs import skip_late
    from flows.servers.reconcile import close_orphans

    with get_client(sync_client=True) as prefect:
        for run in close_orphans(MlflowClient(settings.mlflow_tracking_uri), prefect):
            if run.status:
                console.print(f"Closed the run {run.name}, which was left open: {run.why}")
        skip_late(prefect, console.print)


@contextlib.contextmanager
def _owned(server: Server) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def _announced(file: Path, prefect_url: str, mlflow_url: str) -> Iterator[None]:
    """Write the addresses to a file in which `nmt run` finds the servers, and remove it in the end."""
    values = {"process": this_process(), "prefect": f"{prefect_url}/api", "mlflow": mlflow_url}
    file.write_text(json.dumps(values), encoding="utf-8")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
