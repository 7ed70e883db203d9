"""Maintenance flows: `gc` frees disk space, and `reconcile` ends runs whose process is gone and skips late runs."""

from dataclasses import asdict

from mlflow.tracking import MlflowClient
from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import get_client

from flows.display import reports
from flows.display.markdown import cells
from flows.registry.marks import forget_marks
from flows.retention.garbage import garbage
from flows.runs.endings import completed, ends_in_words
from flows.runs.run_names import Deployed, Parameters, unless_typed
from flows.servers.heartbeats import end_silent, heartbeat_seconds, says_its_end
from flows.servers.late_runs import skip_late
from flows.servers.reconcile import Closed, close_orphans
from flows.settings import Settings
from nmt_core.errors import counted


def _name_of_gc(parameters: Parameters, deployed: Deployed) -> str:
    return "gc: delete" if parameters.get("delete") else "gc: list"


def _name_of_reconcile(parameters: Parameters, deployed: Deployed) -> str:
    return "reconcile"


@says_its_end
@flow(name="gc", flow_run_name=unless_typed(_name_of_gc), persist_result=False)
@ends_in_words
def gc(
    keep_runs: int = 5,
    delete: bool = False,
    older_than: int = 30,
    unfinished: int = 30,
    gone: list[str] = [],  # noqa: B006  # Prefect's form shows the default; nothing changes it
    forget: list[str] = [],  # noqa: B006
) -> list[str]:
    """List the artifacts that no recent run needs, here and in the shared store, and delete them on request.

    Args:
        keep_runs: Number of recent runs of each recipe whose artifacts are kept.
        delete: Delete the artifacts. Otherwise they are only listed.
        older_than: Minimum age, in days, of artifacts to free in the shared store.
        unfinished: Minimum age, in days, of partial artifacts to free, which interrupted stages left.
        gone: Registries that no longer exist. They are not queried.
        forget: Marks of models that no longer exist. They are removed first.
    """
    logger, settings = get_run_logger(), Settings.load()
    forget_marks(settings.store, forget)
    rubbish = garbage(settings, keep_runs, older_than, unfinished_days=unfinished, gone=gone, note=logger.info)
    if delete:
        for one in rubbish:
            one.remove()
    did = "freed" if delete else "would be freed, and nothing was deleted"
    freed = reports.size(sum(one.bytes for one in rubbish))
    logger.info(f"{freed} in {counted(len(rubbish), 'folder')} {did}")
    rows = [{"artifact": one.name, "size": reports.size(one.bytes)} for one in rubbish]
    create_table_artifact(cells(rows), key="gc", description=f"{freed} {did}")
    names = [one.name for one in rubbish]
    return completed(f"{freed} in {counted(len(names), 'folder')} {did}", names)


@says_its_end
@flow(name="reconcile", flow_run_name=unless_typed(_name_of_reconcile), persist_result=False)
@ends_in_words
def reconcile(close_unknown: bool = False) -> list[Closed]:
    """End flow runs whose machine is gone, close MLflow runs whose flow run or process has ended, and skip late runs.

    Args:
        close_unknown: Also close MLflow runs whose flow run is unknown to this Prefect server. They may still be
            running under another server.
    """
    settings, logger = Settings.load(), get_run_logger()
    settings.prepare()
    with get_client(sync_client=True) as prefect:
        skip_late(prefect, logger.info)
        end_silent(prefect, logger.info, heartbeat_seconds())
        runs = close_orphans(MlflowClient(settings.mlflow_tracking_uri), prefect, unknown=close_unknown)
    for run in runs:
        logger.info(f"{run.name} ({run.run_id}): {run.status or 'left alone'}: {run.why}")
    rows = cells(asdict(run) for run in runs)
    create_table_artifact(rows, key="reconcile", description="MLflow runs without an owner")
    closed = sum(bool(run.status) for run in runs)
    return completed(f"{closed} MLflow runs closed", runs)
