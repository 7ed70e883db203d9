"""MLflow tracking that never blocks: what cannot be logged now is logged later, and training does not wait.

A background thread executes all operations in order. While MLflow does not answer, the thread keeps the operations,
reports it once, retries every few seconds and catches up. Runs keep the times at which they began and ended.
"""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from flows.runs.summary import Status
from flows.settings import SQLITE
from flows.tracking.lineage import TextPart
from flows.tracking.pages import VIEW, VIEW_TAG
from flows.tracking.system_metrics import SYSTEM
from nmt_core.errors import without_password, words_of

Operation = Callable[[MlflowClient], None]


_POINTS_PER_BATCH = 1_000  # the maximum that MLflow accepts
_PARAMS_PER_BATCH = 100
_POINTS_HELD = 200_000
_POINTS_OF_THE_SYSTEM_HELD = 10_000
_SECONDS_BETWEEN_BATCHES = 1.0
_SECONDS_BETWEEN_TRIES = 5.0
_CREATION_TAG = "nmt.creation"
_HOPELESS = {"INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS", "BAD_REQUEST"}

_NO_ENTRY = {"UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED"}

_log = logging.getLogger(__name__)


def open_database(uri: str) -> None:
    """Open a local database, and create it if necessary.

    This takes a second or more, so call it while something else starts. The database is created under another name,
    because MLflow cannot use a database whose creation was interrupted. Other errors are left to the tracker, which
    retries.
    """
    if not uri.startswith(SQLITE):
        return
    file = Path(uri.removeprefix(SQLITE))
    with suppress(MlflowException, SQLAlchemyError):  # the latter while another process holds a lock
        if file.exists() or file.suffix != ".db":
            MlflowClient(uri).search_experiments(max_results=1)
            return
        draft = file.with_name(f"{file.name}.partial")
        for rest in file.parent.glob(f"{draft.name}*"):
            rest.unlink()
        MlflowClient(f"{SQLITE}{draft}").search_experiments(max_results=1)
        draft.rename(file)


@dataclass
class TrackedRun:
    """MLflow run. Its id is known once MLflow has answered."""

    name: str
    id: str = ""
    creation: str = field(default_factory=lambda: uuid4().hex)
    """Tag that finds the run if MLflow has created it and the answer was lost."""
    created: threading.Event = field(default_factory=threading.Event)
    create: Operation | None = None
    """Creation of a run that does not exist yet. See `Tracker.start`."""
    held: deque["_Point"] = field(default_factory=lambda: deque(maxlen=_POINTS_OF_THE_SYSTEM_HELD))
    """Points about the system, while the run does not exist."""

    @property
    def exists(self) -> bool:
        """True if the run is in MLflow, or will be once MLflow answers."""
        return self.create is None


@dataclass(frozen=True)
class _Point:
    run: TrackedRun
    name: str
    value: float
    at: int
    step: int


class Tracker:
    """Writer of runs to one MLflow experiment. No method raises, and only `id_of` and `close` wait for MLflow.

    Args:
        uri: Address of MLflow.
        experiment: Name of the experiment.
        model_files: Folder for the files of a local database.
        warn: Callback that shows a message to the user.
    """

    def __init__(self, uri: str, experiment: str, model_files: Path, warn: Callable[[str], None]) -> None:
        self._uri = uri
        self._experiment_name = experiment
        self._model_files = model_files
        self._warn: Callable[[str], None] = lambda message: warn(without_password(message))
        self._experiment = ""
        self._operations: deque[Operation] = deque()
        self._points: deque[_Point] = deque(maxlen=_POINTS_HELD)
        self._changed = threading.Condition()
        self._closing = False
        self._failing = False
        self._trouble = "does not answer"
        self._has_answered = False
        self._gives_up_at = 0.0
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()

    @property
    def experiment(self) -> str:
        """Id of the experiment. Empty until MLflow has answered."""
        return self._experiment

    def start(
        self,
        name: str,
        tags: Mapping[str, str],
        params: Mapping[str, Any],
        parent: TrackedRun | None = None,
        *,
        lazily: bool = False,
    ) -> TrackedRun:
        """Begin a run, as a child of `parent` if one is given.

        Args:
            name: Name of the run.
            tags: Tags of the run.
            params: Parameters of the run.
            parent: Run that this one is a part of.
            lazily: Create the run when something is logged to it, except measurements of the system. A stage that
                turns out to be reused has nothing to log.
        """
        run = TrackedRun(name)
        began = _now()

        def create(client: MlflowClient) -> None:
            all_tags = {key: without_password(value) for key, value in tags.items()} | {_CREATION_TAG: run.creation}
            all_tags |= {"mlflow.parentRunId": parent.id} if parent else {}
            if not run.id:
                experiment = self._experiment_id(client)
                made = self._created(client, run) or [client.create_run(experiment, began, all_tags, name)]
                run.id = made[0].info.run_id
            values = [Param(key, without_password(str(value))[:6_000]) for key, value in params.items()]
            for first in range(0, len(values), _PARAMS_PER_BATCH):
                client.log_batch(run.id, params=values[first : first + _PARAMS_PER_BATCH])
            run.created.set()

        run.create = create
        if not lazily:
            self.create(run)
        return run

    def create(self, run: TrackedRun) -> None:
        """Create a run that was started lazily, unless it exists."""
        with self._changed:
            if run.create:
                self._enqueue(run.create)
                run.create = None
                self._points.extend(run.held)

    def metrics(self, run: TrackedRun, values: Mapping[str, float], step: int = 0) -> None:
        """Add a point to each curve. Points are sent together, about once a second."""
        at = _now()
        points = [_Point(run, name, float(value), at, step) for name, value in values.items()]
        with self._changed:
            if not run.exists and all(name.startswith(SYSTEM) for name in values):
                run.held.extend(points)
                return
            self.create(run)
            self._points.extend(points)

    def tags(self, run: TrackedRun, tags: Mapping[str, str]) -> None:
        """Set tags."""
        self.create(run)

        def set_tags(client: MlflowClient) -> None:
            client.log_batch(run.id, tags=[RunTag(key, without_password(value)) for key, value in tags.items()])

        self._enqueue(set_tags)

    def text(self, run: TrackedRun, text: str, file: str) -> None:
        """Store a text as a file of the run."""
        self.create(run)
        self._enqueue(lambda client: client.log_text(run.id, text, file))

    def tables(self, run: TrackedRun, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Store rows as tables that MLflow shows, by the names of their files, which end in .json."""
        filled = {file: rows for file, rows in tables.items() if rows}
        for file, rows in filled.items():
            columns = list(dict.fromkeys(name for row in rows for name in row))
            table = {"columns": columns, "data": [[row.get(name) for name in columns] for row in rows]}
            self.text(run, json.dumps(table), file)
        if filled:
            shown = [{"path": file, "type": "table"} for file in filled]
            self.tags(run, {"mlflow.loggedArtifacts": json.dumps(shown)})  # as `mlflow.log_table` does

    def image(self, run: TrackedRun, content: bytes, file: str) -> None:
        """Store an image as a file of the run."""
        self.create(run)

        def log_image(client: MlflowClient) -> None:
            with TemporaryDirectory() as folder:
                (Path(folder) / file).write_bytes(content)
                client.log_artifact(run.id, str(Path(folder) / file))

        self._enqueue(log_image)

    def datasets(self, run: TrackedRun, parts: Iterable[TextPart]) -> None:
        """Log text as input of a run."""
        inputs = [part.as_input() for part in parts]
        self.create(run)
        self._enqueue(lambda client: client.log_inputs(run.id, datasets=inputs))

    def finish(self, run: TrackedRun, status: Status) -> None:
        """End a run, and remove its empty twins: a request that seemed lost may be answered after the next one."""
        self.create(run)
        ended = _now()

        def end(client: MlflowClient) -> None:
            client.set_terminated(run.id, status, ended)
            for twin in self._created(client, run):
                if twin.info.run_id != run.id:
                    client.set_terminated(twin.info.run_id, "KILLED", ended)
                    with suppress(MlflowException):  # who may end a run may not be allowed to delete it
                        client.delete_run(twin.info.run_id)

        self._enqueue(end)

    def id_of(self, run: TrackedRun, timeout: float) -> str:
        """Return the id of a run, or an empty text if MLflow does not answer or the run was never created."""
        if not run.exists:
            return ""
        deadline = time.monotonic() + timeout
        while not run.created.wait(0.05) and not self._failing and time.monotonic() < deadline:
            pass
        return run.id

    def close(self, timeout: float = 10, patience: float = 0) -> None:
        """Send what is left for up to `timeout` seconds, then give up with a warning.

        If MLflow has answered before and does not answer now, wait up to `patience` seconds for it.
        """
        with self._changed:
            self._closing = True
            patience = patience if self._has_answered else 0
            self._gives_up_at = time.monotonic() + patience
            self._gather_points()
            if self._failing:
                self._say_that_it_waits()
            self._changed.notify_all()
        self._thread.join(max(timeout, patience))
        if self._operations:
            self._warn(f"MLflow at {self._uri} still {self._trouble}: the rest of this run is not logged")

    def _enqueue(self, operation: Operation) -> None:
        with self._changed:
            self._gather_points()  # points precede later operations, such as the end of their run
            self._operations.append(operation)
            self._changed.notify_all()

    def _gather_points(self) -> None:
        """Turn the collected points into operations, one for each batch of each run."""
        by_run: dict[int, list[_Point]] = {}
        while self._points:
            point = self._points.popleft()
            by_run.setdefault(id(point.run), []).append(point)
        for points in by_run.values():
            for first in range(0, len(points), _POINTS_PER_BATCH):
                self._operations.append(_log_points(points[first : first + _POINTS_PER_BATCH]))

    def _work(self) -> None:
        client: MlflowClient | None = None
        while True:
            with self._changed:
                if not self._operations and not self._closing:
                    self._changed.wait(_SECONDS_BETWEEN_BATCHES)
                    self._gather_points()
                if not self._operations:
                    if self._closing:
                        return
                    continue
                operation = self._operations[0]
            try:
                client = client or MlflowClient(self._uri)
                operation(client)
            except Exception as error:
                if not self._is_hopeless(error):
                    if self._closing and self._failing and time.monotonic() >= self._gives_up_at:
                        return
                    self._wait_out(error)
                    continue
            with self._changed:
                self._failing, self._has_answered = False, True
                self._operations.popleft()
                self._changed.notify_all()

    def _experiment_id(self, client: MlflowClient) -> str:
        if not self._experiment:
            experiment = client.get_experiment_by_name(self._experiment_name)
            self._experiment = experiment.experiment_id if experiment else self._made_experiment(client)
            if not experiment or experiment.tags.get(VIEW_TAG) != VIEW:
                with suppress(MlflowException):  # the table then has MLflow's own columns
                    client.set_experiment_tag(self._experiment, VIEW_TAG, VIEW)
        return self._experiment

    def _created(self, client: MlflowClient, run: TrackedRun) -> list[Run]:
        return list(client.search_runs([self._experiment], f"tags.`{_CREATION_TAG}` = '{run.creation}'"))

    def _made_experiment(self, client: MlflowClient) -> str:
        is_local = self._uri.startswith("sqlite:")
        location = self._model_files.as_uri() if is_local else None  # a server decides where its files go
        try:
            return str(client.create_experiment(self._experiment_name, location))
        except MlflowException:
            if experiment := client.get_experiment_by_name(self._experiment_name):  # another run has just created it
                return str(experiment.experiment_id)
            raise

    def _is_hopeless(self, error: Exception) -> bool:
        """Return True if MLflow answered and would refuse the same operation again."""
        refused = getattr(error, "error_code", "") in _HOPELESS
        if refused:
            self._warn(f"MLflow refuses an operation ({words_of(error)}): continuing without it")
        return refused

    def _wait_out(self, error: Exception) -> None:
        if not self._failing:
            _log.debug("MLflow does not answer", exc_info=error)
            self._trouble = _trouble(error)
            if not self._closing:
                self._warn(f"MLflow at {self._uri} {self._trouble}: continuing, and logging later")
            else:
                self._say_that_it_waits()
        with self._changed:
            self._failing = True
            self._changed.notify_all()
            self._changed.wait(0.5 if self._closing else _SECONDS_BETWEEN_TRIES)

    def _say_that_it_waits(self) -> None:
        seconds = self._gives_up_at - time.monotonic()
        if seconds > 1:
            self._warn(f"waiting up to {seconds:.0f} s for MLflow at {self._uri}, to log the rest of this run")


def _trouble(error: Exception) -> str:
    """Return why nothing can be logged now, with what to check first."""
    if getattr(error, "error_code", "") not in _NO_ENTRY:
        return "does not answer"
    return "denies access (set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN)"


def _log_points(points: list[_Point]) -> Operation:
    def log_points(client: MlflowClient) -> None:
        client.log_batch(points[0].run.id, metrics=[Metric(p.name, p.value, p.at, p.step) for p in points])

    return log_points


def _now() -> int:
    return int(time.time() * 1_000)
