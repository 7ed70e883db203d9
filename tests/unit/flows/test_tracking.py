import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow.entities import Run, ViewType
from mlflow.tracking import MlflowClient

from flows.servers import free_port
from flows.settings import Settings
from flows.tracking import Tracker

Finder = Callable[[], dict[str, Run]]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "")  # so that what `prepare` sets is taken back
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    settings.prepare()
    return settings


@pytest.fixture
def found(settings: Settings) -> Finder:
    """Reads the runs back, by name."""

    def find() -> dict[str, Run]:
        client = MlflowClient(settings.mlflow_tracking_uri)
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        return {run.info.run_name: run for run in client.search_runs(experiments, run_view_type=ViewType.ALL)}

    return find


def test_runs_with_all_they_hold_reach_a_local_database(settings: Settings, found: Finder) -> None:
    warnings: list[str] = []
    tracker = Tracker(settings.mlflow_tracking_uri, "corpus", settings.model_files, warnings.append)
    parent = tracker.start("parent", {"a": "1"}, {f"knob{n}": n for n in range(150)})
    child = tracker.start("child", {}, {}, parent=parent)
    for step in range(2_500):
        tracker.metrics(child, {"loss": step / 2}, step)
    tracker.text(child, "# hello", "report.md")
    tracker.finish(child, "FINISHED")
    tracker.finish(parent, "KILLED")
    tracker.close(timeout=60)

    runs = found()
    assert runs["parent"].info.status == "KILLED"
    assert len(runs["parent"].data.params) == 150
    assert runs["child"].data.tags["mlflow.parentRunId"] == runs["parent"].info.run_id == parent.id
    assert runs["child"].data.metrics["loss"] == 2_499 / 2
    client = MlflowClient(settings.mlflow_tracking_uri)
    assert len(client.get_metric_history(child.id, "loss")) == 2_500
    assert Path(client.download_artifacts(child.id, "report.md")).read_text() == "# hello"
    assert client.get_run(child.id).info.artifact_uri.startswith(settings.model_files.as_uri())
    assert warnings == []


def test_a_dead_server_costs_no_time_and_one_warning(settings: Settings) -> None:
    warnings: list[str] = []
    start = time.monotonic()
    tracker = Tracker(f"http://127.0.0.1:{free_port()}", "corpus", settings.model_files, warnings.append)
    run = tracker.start("run", {}, {})
    for step in range(10_000):
        tracker.metrics(run, {"loss": 1.0}, step)
    assert time.monotonic() - start < 1
    assert tracker.id_of(run, timeout=30) == ""
    tracker.finish(run, "FINISHED")
    tracker.close()
    assert time.monotonic() - start < 30
    assert [("logging it later" in warning, "is lost" in warning) for warning in warnings] == [
        (True, False),
        (False, True),
    ]


def test_what_could_not_be_logged_is_caught_up_with(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database whose folder cannot be made yet stands for any MLflow that comes back."""
    monkeypatch.setattr("flows.tracking._SECONDS_BETWEEN_TRIES", 0.2)
    folder = settings.home / "later"
    folder.touch()
    warnings: list[str] = []
    tracker = Tracker(f"sqlite:///{folder / 'mlflow.db'}", "corpus", settings.model_files, warnings.append)
    run = tracker.start("late", {}, {"knob": 1})
    tracker.metrics(run, {"loss": 1.5}, 1)
    began = time.time()
    assert tracker.id_of(run, timeout=30) == ""
    folder.unlink()
    folder.mkdir()
    tracker.finish(run, "FINISHED")
    tracker.close(timeout=60)

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    logged = client.get_run(run.id)
    assert logged.info.status == "FINISHED"
    assert logged.data.metrics == {"loss": 1.5}
    assert abs(logged.info.start_time / 1_000 - began) < 2, "the run keeps the time at which it really began"
    assert len(warnings) == 1


def test_a_refusal_does_not_hold_up_the_rest(settings: Settings, found: Finder) -> None:
    warnings: list[str] = []
    tracker = Tracker(settings.mlflow_tracking_uri, "corpus", settings.model_files, warnings.append)
    run = tracker.start("run", {}, {})
    tracker.metrics(run, {"no|such:name?": 1.0})
    tracker.metrics(run, {"loss": 1.0})
    tracker.tags(run, {"fine": "yes"})
    tracker.finish(run, "FINISHED")
    tracker.close(timeout=60)
    assert found()["run"].data.tags["fine"] == "yes"
    assert found()["run"].info.status == "FINISHED"
    assert len(warnings) == 1
    assert "refuses" in warnings[0]


def test_many_threads_may_log_at_once(settings: Settings) -> None:
    tracker = Tracker(settings.mlflow_tracking_uri, "corpus", settings.model_files, lambda message: None)
    run = tracker.start("run", {}, {})

    def log(name: str) -> None:
        for step in range(500):
            tracker.metrics(run, {name: step}, step)

    threads = [threading.Thread(target=log, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tracker.finish(run, "FINISHED")
    tracker.close(timeout=60)
    client = MlflowClient(settings.mlflow_tracking_uri)
    assert [len(client.get_metric_history(run.id, name)) for name in ("a", "b", "c")] == [500, 500, 500]
