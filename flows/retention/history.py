"""Old runs in the histories of MLflow and Prefect that nothing refers to any more."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from mlflow.entities import Run
from mlflow.tracking import MlflowClient
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterEndTime,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun
from prefect.exceptions import ObjectNotFound

from flows.runs.ownership import DEPLOYMENT_TAG, FLOW_RUN_TAG
from flows.tracking.paging import all_flow_runs, read_all

_PARENT_TAG = "mlflow.parentRunId"
_JOB_TAG = "nmt.job"
_OURS = {FLOW_RUN_TAG, _JOB_TAG}
"""Tags by which runs of this package are recognised. Experiments may hold runs of other programs."""
_MADE = "artifact.fingerprint"
_USED = "artifact."
_PAGE = 1_000
_VERSIONS_OF_A_PAGE = 10_000
_IDS_OF_A_REQUEST = 100
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FINGERPRINT = re.compile(r"[0-9a-f]{32,64}")


@dataclass(frozen=True)
class OldRun:
    """Run that can be removed from a history, with the runs of its stages."""

    server: str
    """MLflow or Prefect."""
    name: str
    ended: datetime
    runs: int
    """Number of runs, including the runs of the stages."""
    remove: Callable[[], None]


@dataclass
class _Family:
    """Run of MLflow with the runs of its stages."""

    root: str
    runs: list[Run] = field(default_factory=list)

    @property
    def name(self) -> str:
        root = [run for run in self.runs if run.info.run_id == self.root]
        return str((root or self.runs)[0].info.run_name)

    @property
    def flow_runs(self) -> set[str]:
        return {run.data.tags[FLOW_RUN_TAG] for run in self.runs if run.data.tags.get(FLOW_RUN_TAG)}

    @property
    def ended(self) -> datetime | None:
        """Time at which the last run ended. None if one is running, or never was closed."""
        times = [run.info.end_time if run.info.status != "RUNNING" else None for run in self.runs]
        known = [time for time in times if time]
        return datetime.fromtimestamp(max(known) / 1_000, UTC) if len(known) == len(times) else None

    def made(self) -> set[str]:
        """Return the fingerprints of the artifacts that these runs made."""
        made = (run for run in self.runs if run.data.tags.get("artifact.reused") == "false")
        return {run.data.tags[_MADE] for run in made if _MADE in run.data.tags}

    def used(self) -> set[str]:
        """Return the fingerprints of all artifacts that these runs made or used."""
        values = {value for run in self.runs for key, value in run.data.tags.items() if key.startswith(_USED)}
        return {value for value in values if _FINGERPRINT.fullmatch(value)}


def old_runs(mlflow: MlflowClient, prefect: SyncPrefectClient, before: datetime) -> list[OldRun]:
    """Return the runs that ended before a time, and that neither a registered model nor a newer run refers to.

    A version of a registered model keeps the run that registered it, the runs that made the artifacts which that run
    used, and their flow runs. A change of a champion keeps the flow run that made it.

    Args:
        mlflow: Client of the MLflow server.
        prefect: Client of the Prefect server.
        before: Time. Runs that ended later are kept, and runs that have not ended.

    Raises:
        MlflowException: MLflow does not answer, so that it is unknown what its models refer to.
    """
    registered, referred = _references(mlflow)
    families = _families(mlflow)
    kept = _kept(families, registered, before)
    old = [family for family in families if family.root not in kept]
    still = {flow_run for family in families if family.root in kept for flow_run in family.flow_runs} | referred
    owned = {flow_run for family in families for flow_run in family.flow_runs}
    old_ones = [
        OldRun("MLflow", family.name, family.ended or before, len(family.runs), partial(_remove, mlflow, family))
        for family in old
    ]
    for run in _ended(prefect, owned, before):
        if str(run.id) not in still:
            ended = run.end_time or before
            old_ones.append(OldRun("Prefect", run.name, ended, 1, partial(_remove_flow_run, prefect, run)))
    # Flow runs first: MLflow is what names them, so that an interrupted call leaves none behind that is not found again
    return sorted(old_ones, key=lambda one: (one.server != "Prefect", one.ended))


def _references(mlflow: MlflowClient) -> tuple[set[str], set[str]]:
    """Return the MLflow runs of all versions of registered models, and every id in tags of models and versions."""
    versions = read_all(mlflow.search_model_versions, "", max_results=_VERSIONS_OF_A_PAGE)
    models = read_all(mlflow.search_registered_models, max_results=_PAGE)
    texts = [str(value) for tagged in (*versions, *models) for value in (tagged.tags or {}).values()]
    return {version.run_id for version in versions if version.run_id}, {
        match for text in texts for match in _UUID.findall(text)
    }


def _families(mlflow: MlflowClient) -> list[_Family]:
    """Return all runs of this package, each with the runs of its stages."""
    experiments = [experiment.experiment_id for experiment in read_all(mlflow.search_experiments)]
    families: dict[str, _Family] = {}
    for run in read_all(mlflow.search_runs, experiments, "", max_results=_PAGE) if experiments else ():
        if _OURS & run.data.tags.keys():
            root = run.data.tags.get(_PARENT_TAG, run.info.run_id)
            families.setdefault(root, _Family(root)).runs.append(run)
    return list(families.values())


def _kept(families: Iterable[_Family], registered: set[str], before: datetime) -> set[str]:
    """Return the roots of the families that are recent, or that a registered model was made in or from."""
    families = list(families)
    of_models = [family for family in families if {run.info.run_id for run in family.runs} & registered]
    needed = {print_ for family in of_models for print_ in family.used()}
    recent = [family for family in families if family.ended is None or family.ended >= before]
    makers = [family for family in families if family.made() & needed]
    return {family.root for family in (*of_models, *recent, *makers)}


def _ended(prefect: SyncPrefectClient, owned: set[str], before: datetime) -> Iterator[FlowRun]:
    """Yield the flow runs of this package that ended before a time: of its deployments, and those that MLflow names."""
    of_deployments = DeploymentFilter(tags=DeploymentFilterTags(all_=[DEPLOYMENT_TAG]))
    runs = {run.id: run for run in _all(prefect, before, None, of_deployments)}
    ids = sorted(owned)
    for first in range(0, len(ids), _IDS_OF_A_REQUEST):
        named = FlowRunFilterId(
            any_=[flow_run for flow_run in ids[first : first + _IDS_OF_A_REQUEST] if _UUID.fullmatch(flow_run)]
        )
        runs |= {run.id: run for run in _all(prefect, before, named, None)}
    yield from runs.values()


def _all(
    prefect: SyncPrefectClient, before: datetime, named: FlowRunFilterId | None, deployments: DeploymentFilter | None
) -> Iterator[FlowRun]:
    """Return the ended flow runs that pass the filters."""
    ended = FlowRunFilter(
        id=named,
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=sorted(TERMINAL_STATES))),
        end_time=FlowRunFilterEndTime(before_=before),
    )
    return all_flow_runs(prefect, ended, deployments)


def _remove(mlflow: MlflowClient, family: _Family) -> None:
    """Delete the runs of the stages, then the run itself: an interruption leaves a run that the next call removes."""
    for run in sorted(family.runs, key=lambda run: run.info.run_id == family.root):
        mlflow.delete_run(run.info.run_id)


def _remove_flow_run(prefect: SyncPrefectClient, run: FlowRun) -> None:
    """Delete a flow run, which an earlier try may have deleted although its answer was lost."""
    try:
        prefect.delete_flow_run(run.id)
    except ObjectNotFound:
        return
