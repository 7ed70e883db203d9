"""`nmt reconcile`: end what no process runs any more."""

from functools import partial
from typing import Annotated

import typer

from flows.cli.arguments import Debug


def reconcile(
    close_unknown: Annotated[
        bool, typer.Option("--close-unknown", help="Also close runs whose flow run this Prefect server does not know.")
    ] = False,
    debug: Debug = False,
) -> None:
    """End flow runs whose machine is gone, and close MLflow runs whose flow run or process has ended."""
    from flows.display.progress import terminal
    from flows.servers.servers import PrefectApi
    from flows.settings import Settings

    settings = Settings.load()
    settings.prepare()
    say = partial(terminal(to_stderr=False).print, soft_wrap=True)
    with PrefectApi(settings).connected() as api:
        from mlflow.tracking import MlflowClient
        from prefect.client.orchestration import get_client

        from flows.servers.heartbeats import end_silent, heartbeat_seconds
        from flows.servers.reconcile import close_orphans

        api.wait()
        with get_client(sync_client=True) as prefect:
            end_silent(prefect, say, heartbeat_seconds())
            found = close_orphans(MlflowClient(settings.mlflow_tracking_uri), prefect, unknown=close_unknown)
    for run in found:
        say(f"{run.run_id}  {run.name}: {run.status or 'left alone'}: {run.why}")
    closed = sum(bool(run.status) for run in found)
    say(f"{closed} runs closed, {len(found) - closed} left alone")
