"""Runs reach MLflow with everything that they hold, and a server that is away holds nothing up."""

import contextlib
import http.server
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow.data
import pytest
from mlflow.entities import Run, ViewType
from mlflow.tracking import MlflowClient
from support.until import patient, until

from flows.servers.servers import start_mlflow
from flows.settings import Settings
from flows.tracking.lineage import TextPart
from flows.tracking.mlflow_tracker import TrackedRun, Tracker
from flows.tracking.pages import VIEW, VIEW_TAG

Finder = Callable[[], dict[str, Run]]


@contextlib.contextmanager
def serving(settings: Settings, port: int) -> Iterator[None]:
    """An MLflow server that answers."""
    server = start_mlflow(settings, port)
    try:
        server.wait_until(f"http://127.0.0.1:{port}/health", timeout=patient(120))
        yield
    finally:
        server.stop()


@pytest.fixture
def settings(tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "")  # so that what `prepare` sets is taken back
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    shutil.copyfile(mlflow_database, settings.own_database)
    settings.prepare()
    return settings


@pytest.fixture
def found(settings: Settings) -> Finder:
    """Read the runs back, by name."""

    def find() -> dict[str, Run]:
        client = MlflowClient(settings.mlflow_tracking_uri)
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        return {run.info.run_name: run for run in client.search_runs(experiments, run_view_type=ViewType.ALL)}

    return find


def test_runs_with_all_they_hold_reach_a_local_database(settings: Settings, found: Finder) -> None:
    warnings: list[str] = []
    tracker = Tracker(settings.mlflow_tracking_uri, "corpus", settings.model_files, warnings.append)
    parent = tracker.start("parent", {"a": "1"}, {f"option{n}": n for n in range(150)})
    child = tracker.start("child", {}, {}, parent=parent)
    for step in range(2_500):
        tracker.metrics(child, {"loss": step / 2}, step)
    tracker.text(child, "# hello", "report.md")
    tracker.finish(child, "FINISHED")
    tracker.finish(parent, "KILLED")
    tracker.close(timeout=patient(30))

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


def test_a_run_that_was_started_lazily_exists_once_something_is_logged(settings: Settings, found: Finder) -> None:
    tracker = Tracker(settings.mlflow_tracking_uri, "corpus", settings.model_files, print)
    parent = tracker.start("parent", {}, {})
    reused, worked = (tracker.start(name, {"a": name}, {}, parent, lazily=True) for name in ("reused", "worked"))
    for run in (reused, worked):
        tracker.metrics(run, {"system/cpu": 1.0}, 3)
    assert (reused.exists, worked.exists) == (False, False)
    assert tracker.id_of(reused, timeout=3_600) == "", "it need not be waited for"
    tracker.metrics(worked, {"loss": 2.0}, 1)
    tracker.finish(worked, "FINISHED")
    tracker.finish(parent, "FINISHED")
    tracker.close(timeout=patient(30))

    runs = found()
    assert runs.keys() == {"parent", "worked"}
    assert runs["worked"].data.metrics == {"system/cpu": 1.0, "loss": 2.0}, "nothing that came before is lost"
    assert runs["worked"].data.tags["mlflow.parentRunId"] == parent.id
    assert (reused.id, worked.id) == ("", runs["worked"].info.run_id)


def test_the_table_of_an_experiment_begins_with_the_scores(settings: Settings) -> None:
    client = MlflowClient(settings.mlflow_tracking_uri)
    before = client.create_experiment("before")  # as an earlier version made it
    for name in ("corpus", "before"):
        tracker = Tracker(settings.mlflow_tracking_uri, name, settings.model_files, print)
        tracker.start("run", {}, {})
        tracker.close(timeout=patient(30))
        assert client.get_experiment_by_name(name).tags[VIEW_TAG] == VIEW
    assert client.get_experiment_by_name("before").experiment_id == before


def test_no_password_of_an_address_reaches_mlflow(settings: Settings, found: Finder) -> None:
    warnings: list[str] = []
    tracker = Tracker(settings.mlflow_tracking_uri, "corpus", settings.model_files, warnings.append)
    address = "ftp://nmt:sesame@example.org/a.txt"
    run = tracker.start("run", {"job": address}, {"source": address, "long": "a" * 5_984 + address})
    tracker.tags(run, {"artifact.path": address})
    tracker.close(timeout=patient(30))
    data = found()["run"].data
    shown = "ftp://nmt:***@example.org/a.txt"
    assert (data.tags["job"], data.tags["artifact.path"], data.params["source"]) == (shown, shown, shown)
    assert "sesame" not in f"{data.params}{data.tags}{warnings}"


def test_a_run_lists_its_text_and_another_run_the_same(settings: Settings, tmp_path: Path) -> None:
    warnings: list[str] = []
    file = tmp_path / "some.parquet"
    file.touch()
    train = TextPart("train", "0" * 32, "training", file, 1_000)
    texts = [
        train,
        TextPart("dev", "0" * 32, "validation", file, 10),
        TextPart("test/dev", "0" * 32, "testing", file, 20),
    ]
    tracker = Tracker(settings.mlflow_tracking_uri, "corpus", settings.model_files, warnings.append)
    runs = [tracker.start(name, {}, {}) for name in ("first", "second")]
    for run in runs:
        tracker.datasets(run, texts)
    tracker.datasets(runs[0], texts)  # as after a lost answer: it is sent twice and listed once
    tracker.close(timeout=patient(30))

    client = MlflowClient(settings.mlflow_tracking_uri)
    for run in runs:
        inputs = client.get_run(run.id).inputs.dataset_inputs
        contexts = {each.dataset.name: [tag.value for tag in each.tags] for each in inputs}
        assert contexts == {"train": ["training"], "dev": ["validation"], "test/dev": ["testing"]}
        assert {each.dataset.digest for each in inputs} == {"0" * 32}
        assert {each.dataset.profile for each in inputs} == {f'{{"pairs": {pairs}}}' for pairs in (1_000, 10, 20)}
        assert {mlflow.data.get_source(each).load() for each in inputs} == {str(file)}
    assert warnings == []


def log_ten_thousand_points(tracker: Tracker) -> TrackedRun:
    run = tracker.start("run", {}, {})
    tracker.datasets(run, [TextPart("train", "0" * 32, "training", Path("train.parquet"), 1)])
    for step in range(10_000):
        tracker.metrics(run, {"loss": 1.0}, step)
    return run


def test_a_dead_server_costs_one_warning_and_what_it_missed_another(settings: Settings, free_port: int) -> None:
    warnings: list[str] = []
    tracker = Tracker(f"http://127.0.0.1:{free_port}", "corpus", settings.model_files, warnings.append)
    run = log_ten_thousand_points(tracker)
    assert tracker.id_of(run, timeout=3_600) == "", "it need not be waited for, once it is known not to answer"
    tracker.finish(run, "FINISHED")
    tracker.close()
    assert [("logging later" in warning, "is not logged" in warning) for warning in warnings] == [
        (True, False),
        (False, True),
    ]


def test_a_silent_server_is_not_waited_for(settings: Settings) -> None:
    """The server accepts the connection and sends nothing. A caller that waited would return after the warning."""
    warnings: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        tracker = Tracker(address, "corpus", settings.model_files, warnings.append)
        run = log_ten_thousand_points(tracker)
        with silent.accept()[0]:
            tracker.finish(run, "FINISHED")
            assert warnings == []
    tracker.close(timeout=0)


def test_a_wrong_password_is_said_to_be_one(settings: Settings) -> None:
    class Closed(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # so `http.server` calls it
            self.send_response(401)
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *arguments: Any) -> None: ...

    warnings: list[str] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Closed) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        tracker = Tracker(f"http://127.0.0.1:{server.server_port}", "corpus", settings.model_files, warnings.append)
        run = tracker.start("run", {}, {})
        assert tracker.id_of(run, timeout=30) == ""
        tracker.close(timeout=patient(5))
        server.shutdown()
        thread.join()
    assert ["denies access (set MLFLOW_TRACKING_USERNAME" in warning for warning in warnings] == [True, True]
    assert "is not logged" in warnings[-1]


def test_what_could_not_be_logged_is_caught_up_with(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database whose folder cannot be made yet represents an MLflow that comes back."""
    monkeypatch.setattr("flows.tracking.mlflow_tracker._SECONDS_BETWEEN_TRIES", 0.2)
    folder, made = settings.home / "later", settings.home / "made"
    folder.touch()
    made.mkdir()
    settings.own_database.rename(made / "mlflow.db")
    warnings: list[str] = []
    tracker = Tracker(f"sqlite:///{folder / 'mlflow.db'}", "corpus", settings.model_files, warnings.append)
    before = time.time()
    run = tracker.start("late", {}, {"option": 1})
    after = time.time()
    tracker.metrics(run, {"loss": 1.5}, 1)
    assert tracker.id_of(run, timeout=30) == ""
    folder.unlink()
    made.rename(folder)
    tracker.finish(run, "FINISHED")
    tracker.close(timeout=patient(30))

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    logged = client.get_run(run.id)
    assert logged.info.status == "FINISHED"
    assert logged.data.metrics == {"loss": 1.5}
    milliseconds = range(int(before * 1_000), int(after * 1_000) + 1)
    assert logged.info.start_time in milliseconds, "the run keeps the time at which it really began"
    assert len(warnings) == 1


@pytest.mark.parametrize("late", [False, True], ids=["before it is asked again", "after it was asked again"])
def test_a_run_whose_creation_was_not_confirmed_is_there_once(
    late: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow creates a run when it is asked for the first time, but its answer is lost."""
    monkeypatch.setattr("flows.tracking.mlflow_tracker._SECONDS_BETWEEN_TRIES", 0.2)
    create, asked = MlflowClient.create_run, []

    def lose_the_first_answer(client: MlflowClient, *arguments: Any) -> Run:
        asked.append(arguments)
        answer = create(client, *arguments) if len(asked) > 1 or not late else None
        if len(asked) == 1:
            raise ConnectionError("the server was restarted")
        if late:
            create(client, *asked[0])
        return answer

    monkeypatch.setattr(MlflowClient, "create_run", lose_the_first_answer)
    tracker = Tracker(settings.mlflow_tracking_uri, "corpus", settings.model_files, print)
    run = tracker.start("run", {}, {"option": 1})
    tracker.metrics(run, {"loss": 1.5}, 1)
    tracker.finish(run, "FINISHED")
    tracker.close(timeout=patient(30))

    client = MlflowClient(settings.mlflow_tracking_uri)
    experiments = [tracker.experiment]
    (shown,) = client.search_runs(experiments)
    assert (shown.info.run_id, shown.info.status) == (run.id, "FINISHED")
    assert (shown.data.params, shown.data.metrics) == ({"option": "1"}, {"loss": 1.5})
    assert len(asked) == 1 + late
    twins = client.search_runs(experiments, run_view_type=ViewType.DELETED_ONLY)
    assert [twin.info.status for twin in twins] == ["KILLED"] * late, "none seems to be running for ever"


def with_outages(settings: Settings, port: int) -> dict[str, list[str]]:
    """Log to a server that starts late, goes away, and comes back.

    A run begins before there is a server, and two others end while there is none. Returns the warnings of three
    trackers: of the early run, of a run that is waited for, and of one that is not.
    """
    warnings: dict[str, list[str]] = {name: [] for name in ("early", "patient", "hasty")}
    trackers = {
        name: Tracker(f"http://127.0.0.1:{port}", "corpus", settings.model_files, warned.append)
        for name, warned in warnings.items()
    }
    early = trackers.pop("early")
    parent = early.start("parent", {}, {"option": 1})
    child = early.start("child", {}, {}, parent=parent)
    early.datasets(parent, [TextPart("train", "0" * 32, "training", settings.home / "train.parquet", 1_000)])

    def log(first: int) -> None:
        for step in range(first, first + 1_500):
            early.metrics(child, {"loss": step / 2}, step)

    log(0)
    assert early.id_of(parent, timeout=30) == ""
    with serving(settings, port):
        runs = {name: tracker.start(name, {}, {}) for name, tracker in trackers.items()}
        until(lambda: early.id_of(child, timeout=1))
        until(lambda: all(tracker.id_of(runs[name], timeout=1) for name, tracker in trackers.items()))
    log(1_500)
    early.finish(child, "FINISHED")
    for name, tracker in trackers.items():
        tracker.metrics(runs[name], {"loss": 1.5}, 1)
        tracker.finish(runs[name], "FINISHED")
    until(lambda: len(warnings["early"]) == 2)
    waiting = {"timeout": 0, "patience": patient(100)}
    closing = threading.Thread(target=trackers["patient"].close, kwargs=waiting)
    closing.start()
    trackers["hasty"].close(timeout=0, patience=3)
    with serving(settings, port):
        early.finish(parent, "KILLED")
        early.close(timeout=patient(30))
        closing.join()
    return warnings


@pytest.mark.slow
def test_a_server_that_starts_late_and_goes_away_in_between_gets_everything_that_is_waited_for(
    settings: Settings, found: Finder, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that has answered before is waited for at the end, but not forever."""
    monkeypatch.setattr("flows.tracking.mlflow_tracker._SECONDS_BETWEEN_TRIES", 0.2)
    warnings = with_outages(settings, free_port)
    runs = found()
    status = {"parent": "KILLED", "child": "FINISHED", "patient": "FINISHED", "hasty": "RUNNING"}
    assert {name: run.info.status for name, run in runs.items()} == status
    assert runs["parent"].data.params == {"option": "1"}
    assert [each.dataset.name for each in runs["parent"].inputs.dataset_inputs] == ["train"]
    points = MlflowClient(settings.mlflow_tracking_uri).get_metric_history(runs["child"].info.run_id, "loss")
    assert sorted((point.step, point.value) for point in points) == [(step, step / 2) for step in range(3_000)]
    assert ["logging later" in warning for warning in warnings["early"]] == [True, True]
    assert runs["patient"].data.metrics == {"loss": 1.5}
    assert ["is not logged" in warnings[name][-1] for name in ("patient", "hasty")] == [False, True]
    assert all(any(" s for MLflow" in warning for warning in warnings[name]) for name in ("patient", "hasty"))


def test_a_refusal_does_not_hold_up_the_rest(settings: Settings, found: Finder) -> None:
    warnings: list[str] = []
    tracker = Tracker(settings.mlflow_tracking_uri, "corpus", settings.model_files, warnings.append)
    run = tracker.start("run", {}, {})
    tracker.metrics(run, {"no|such:name?": 1.0})
    tracker.metrics(run, {"loss": 1.0})
    tracker.tags(run, {"fine": "yes"})
    tracker.finish(run, "FINISHED")
    tracker.close(timeout=patient(30))
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
    tracker.close(timeout=patient(30))
    client = MlflowClient(settings.mlflow_tracking_uri)
    assert [len(client.get_metric_history(run.id, name)) for name in ("a", "b", "c")] == [500, 500, 500]
