"""`nmt reconcile`: close runs that no process continues."""

from functools import partial
from typing import Annotated

import typer

from flows.cli.arguments import Debug
from nmt_core.errors import counted


def reconcile(
    close_unknown: Annotated[
        bool,
        typer.Option(
            "--close-unknown", help="Also close MLflow runs whose flow run is unknown to this Prefect server."
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """End flow runs that lost their machine, close MLflow runs whose owner has ended, and skip late runs."""
    from flows.display.progress import terminal
    from flows.servers.servers import PrefectApi
    from flows.settings import Settings

    settings = Settings.load()
    settings.prepare()
    note = partial(terminal(to_stderr=False).print, soft_wrap=True)
    with PrefectApi(settings).connected() as api:
        from mlflow.tracking import MlflowClient
        from prefect.client.orchestration import get_client

        from flows.servers.heartbeats import end_silent, heartbeat_seconds
        from flows.servers.late_runs import skip_late
        from flows.servers.reconcile import close_orphans

        api.wait()
        with get_client(sync_client=True) as prefect:
            skip_late(prefect, note)
            end_silent(prefect, note, heartbeat_seconds())
            orphans = close_orphans(MlflowClient(settings.mlflow_tracking_uri), prefect, unknown=close_unknown)
    for run in orphans:
        note(f"{run.run_id}  {run.name}: {run.status or 'left open'}: {run.why}")
    closed = sum(bool(run.status) for run in orphans)
    note(f"{counted(closed, 'run')} closed, {len(orphans) - closed} left open")
