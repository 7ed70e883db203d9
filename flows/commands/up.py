"""`nmt up`: Prefect, MLflow and the deployments on this machine, until Ctrl-C."""

import contextlib
import json
import os
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from flows.interruption import Stopped, interruptible
from flows.selection import STEPS
from flows.servers import Server, ServerError, free_port, start_mlflow, start_prefect
from flows.settings import Settings
from nmt_core.errors import ConfigError
from nmt_core.recipe import recipe_names

_PREFECT_PORT = 4200
_MLFLOW_PORT = 5000
_SECONDS_BETWEEN_LOOKS = 0.5


def up() -> None:
    """Start everything, say where it is, and wait for Ctrl-C.

    Raises:
        NmtError: something does not start, or ends by itself.
        Stopped: always, in the end.
    """
    settings = Settings.load()
    settings.prepare()
    running = settings.running()
    if running.prefect:
        raise ConfigError(f"`nmt up` runs already on {settings.home}: Prefect at {running.prefect}")
    console = Console()
    try:
        with interruptible(), contextlib.ExitStack() as stack:
            console.print("Starting Prefect and MLflow ...")
            servers = _start(settings, stack, console)
            console.print("Ctrl-C stops all of it.", style="dim")
            while not (ended := [server for server in servers if server.ended()]):
                time.sleep(_SECONDS_BETWEEN_LOOKS)
            raise ServerError(f"{ended[0].name} has ended: see {ended[0].log}")
    except Stopped:
        console.print("All of it has ended.")
        raise


def _start(settings: Settings, stack: contextlib.ExitStack, console: Console) -> list[Server]:
    prefect_port, mlflow_port = free_port(_PREFECT_PORT), free_port(_MLFLOW_PORT)
    prefect_url, mlflow_url = (f"http://127.0.0.1:{port}" for port in (prefect_port, mlflow_port))
    os.environ["PREFECT_API_URL"] = f"{prefect_url}/api"
    servers = [stack.enter_context(_owned(start_prefect(settings, prefect_port, embedded=False)))]
    if not settings.mlflow_tracking_uri.startswith("http"):
        from flows.tracking import open_database  # takes seconds, in which Prefect starts

        open_database(settings.mlflow_tracking_uri)
        servers.append(stack.enter_context(_owned(start_mlflow(settings, mlflow_port))))
        servers[-1].wait_until(f"{mlflow_url}/health")
    else:
        mlflow_url = settings.mlflow_tracking_uri
    servers[0].wait_until(f"{prefect_url}/api/health")
    stack.enter_context(_written_down(settings.servers_file, prefect_url, mlflow_url))
    log = settings.home / "logs" / "deployments.log"
    servers.append(stack.enter_context(_owned(Server("the deployments", ["-m", "flows.deploy"], log, {}))))
    _wait_for_deployments(f"{prefect_url}/api", servers[-1])
    console.print(f"Prefect  {prefect_url}\nMLflow   {mlflow_url}", highlight=False)
    return servers


@contextlib.contextmanager
def _owned(server: Server) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def _written_down(file: Path, prefect_url: str, mlflow_url: str) -> Iterator[None]:
    """Let `nmt run` find the servers."""
    values = {"pid": os.getpid(), "prefect": f"{prefect_url}/api", "mlflow": mlflow_url}
    file.write_text(json.dumps(values), encoding="utf-8")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _wait_for_deployments(api: str, server: Server, timeout: float = 120) -> None:
    expected = len(recipe_names()) + len(STEPS) + 1
    deadline = time.monotonic() + timeout
    while _count_deployments(api) < expected:
        if server.ended() or time.monotonic() > deadline:
            raise ServerError(f"the deployments did not come up: see {server.log}")
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _count_deployments(api: str) -> int:
    request = urllib.request.Request(
        f"{api}/deployments/count", data=b"{}", headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return int(response.read())
