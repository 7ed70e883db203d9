"""Old runs are removed from MLflow and Prefect, except those that a registered model or a running run needs."""

import sqlite3
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed, Running

from flows.retention.history import old_runs
from flows.runs.ownership import FLOW_RUN_TAG
from flows.runs.start_from import tag_of

DAY = 86_400_000
OF_TRAIN, OF_EXPORT = "a" * 32, "b" * 32


@flow
def nothing() -> None: ...


@pytest.fixture
def mlflow(tmp_path: Path, mlflow_database: Path) -> MlflowClient:
    (tmp_path / "mlflow.db").write_bytes(mlflow_database.read_bytes())
    return MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")


class History:
    """Runs in both histories, each of which ended a given number of days ago."""

    def __init__(self, mlflow: MlflowClient, prefect: SyncPrefectClient, database: Path) -> None:
        self.mlflow, self.prefect, self.database = mlflow, prefect, database
        self.flow_runs: dict[str, Any] = {}

    def run(self, name: str, days: int, made: dict[str, str] | None = None, *, ended: bool = True) -> dict[str, str]:
        """Add a run with a child for each artifact that it made, and return the ids by name."""
        flow_run = self.prefect.create_flow_run(nothing, state=Completed() if ended else Running())
        self.flow_runs[name] = flow_run.id
        at = int(time.time() * 1_000) - days * DAY
        if ended:  # the server sets the time itself
            with sqlite3.connect(self.database, timeout=60) as database:
                when = f"{datetime.fromtimestamp(at / 1_000, UTC):%Y-%m-%d %H:%M:%S.%f}"
                database.execute("update flow_run set end_time = ? where id = ?", (when, str(flow_run.id)))
        tags = {FLOW_RUN_TAG: str(flow_run.id)} | {f"artifact.{stage}": value for stage, value in (made or {}).items()}
        parent = self.mlflow.create_run("0", start_time=at, tags=tags, run_name=name).info.run_id
        ids = {"": parent}
        for stage, value in (made or {}).items():
            own = {FLOW_RUN_TAG: str(flow_run.id), "mlflow.parentRunId": parent}
            own |= {"artifact.fingerprint": value, "artifact.reused": "false"}
            ids[stage] = self.mlflow.create_run("0", start_time=at, tags=own, run_name=stage).info.run_id
        for run in ids.values():
            if ended:
                self.mlflow.set_terminated(run, "FINISHED", at)
        return ids

    def clean(self, days: int) -> tuple[set[str], set[str]]:
        """Remove older runs. Return the names of the runs left in MLflow, and of the flow runs left in Prefect."""
        for run in old_runs(self.mlflow, self.prefect, datetime.now(UTC) - timedelta(days=days)):
            run.remove()
        left = {run.info.run_name for run in self.mlflow.search_runs(["0"], run_view_type=ViewType.ACTIVE_ONLY)}
        return left, {name for name, identifier in self.flow_runs.items() if identifier in self._there()}

    def _there(self) -> set[Any]:
        found = set()
        for identifier in self.flow_runs.values():
            try:
                found.add(self.prefect.read_flow_run(identifier).id)
            except ObjectNotFound:
                continue
        return found


@pytest.fixture
def history(mlflow: MlflowClient, prefect: SyncPrefectClient, prefect_server: Any) -> History:
    return History(mlflow, prefect, prefect_server.database)


def test_old_runs_go_and_recent_ones_stay(history: History) -> None:
    history.run("old", 100, {"clean": "c" * 32})
    history.run("recent", 10, {"clean": "d" * 32})
    assert history.clean(90) == ({"recent", "clean"}, {"recent"})


def test_a_run_that_is_going_stays_however_old(history: History) -> None:
    history.run("going", 400, {"train": "e" * 32}, ended=False)
    left, flow_runs = history.clean(90)
    assert left == {"going", "train"}
    assert flow_runs == {"going"}


def test_a_registered_model_keeps_the_runs_that_it_came_from(history: History) -> None:
    """The run that registered the model reused the training, which ran in an earlier run."""
    history.run("trained", 300, {"train": OF_TRAIN})
    ids = history.run("registered", 200, {"export": OF_EXPORT, "register": "f" * 32})
    history.mlflow.set_tag(ids[""], "artifact.train", OF_TRAIN)
    promoted = history.run("promoted it", 200)
    history.run("something else", 200, {"train": "9" * 32})
    history.mlflow.create_registered_model("toy")
    tags = {tag_of("export"): OF_EXPORT, "nmt.champion": f'{{"flow_run": "{history.flow_runs["promoted it"]}"}}'}
    history.mlflow.create_model_version("toy", source="somewhere", run_id=ids["register"], tags=tags)
    left, flow_runs = history.clean(90)
    assert left == {"trained", "train", "registered", "export", "register"}
    assert flow_runs == {"trained", "registered", "promoted it"}
    assert promoted


def test_a_run_of_another_program_stays(history: History) -> None:
    at = int(time.time() * 1_000) - 400 * DAY
    run = history.mlflow.create_run("0", start_time=at, run_name="theirs").info.run_id
    history.mlflow.set_terminated(run, "FINISHED", at)
    theirs = history.prefect.create_flow_run(nothing, state=Completed())
    assert history.clean(90)[0] == {"theirs"}
    assert theirs.name not in {
        one.name for one in old_runs(history.mlflow, history.prefect, datetime.now(UTC) + timedelta(days=1))
    }


def test_a_listing_changes_nothing(history: History) -> None:
    history.run("old", 100, {"clean": "c" * 32, "split": "d" * 32})
    flow_run, run = old_runs(history.mlflow, history.prefect, datetime.now(UTC) - timedelta(days=90))
    assert (flow_run.server, run.server) == ("Prefect", "MLflow"), "those first that MLflow names"
    assert (run.name, run.runs) == ("old", 3)
    assert run.ended < datetime.now(UTC) - timedelta(days=90)
    assert len(history.mlflow.search_runs(["0"])) == 3
