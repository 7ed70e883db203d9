"""Workers for the shards of a stage: child processes, or a cluster through Prefect's task runners for Dask and Ray.

`NMT_WORKERS` chooses (see `flows.settings`). A worker of a cluster needs the same version of this package, of its
libraries and of Python as the machine that runs the flow, the same NMT_HOME under the same path with write access, and
a Prefect API that it can reach. Each shard is a Prefect task run of the flow on the cluster. If a worker dies, the
cluster gives the task to another one.
"""

import importlib
import os
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar, cast

from prefect.client.orchestration import get_client
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_URL
from prefect.tasks import Task as PrefectTask

from flows.settings import Settings
from flows.workers.tasks import PERFORM, Runner, TaskFailedError, submit_bare
from nmt_core.errors import ConfigError, StageError
from nmt_core.execution.child import pack, unpack
from nmt_core.execution.pool import ATTEMPTS, WORKER_ENVIRONMENT, LocalWorkers, Workers, shown
from nmt_core.store.library_versions import DATA_LIBRARIES, versions

Task = TypeVar("Task")
Result = TypeVar("Result")

_SAME_EVERYWHERE = ("python", "nmt-pipeline", *DATA_LIBRARIES)
_START = "start the cluster, or unset NMT_WORKERS to work on this machine alone"
_SECONDS_FOR_A_WORKER = 60
_LOCAL_DASK = {
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "dashboard_address": None,
    "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"},  # it listens even without a dashboard
    "memory_limit": None,  # with a limit, Dask would pause and then kill workers; shards are sized to fit
}
_DASK_CONFIG = {
    "distributed.scheduler.allowed-failures": ATTEMPTS - 1,
    "distributed.nanny.pre-spawn-environ": {},  # these would be set in this process too
}
_LOCAL_RAY = {"include_dashboard": False, "log_to_driver": False}


def workers_for(settings: Settings) -> AbstractContextManager[Workers]:
    """Return the workers of the settings. They start with the first tasks and end with the context."""
    match settings.workers.partition("://")[0]:
        case "local":
            return LocalWorkers(settings.threads)
        case "ray":
            return RayWorkers(settings)
        case _:
            return DaskWorkers(settings)


class ClusterWorkers(ABC):
    """Workers behind a Prefect task runner."""

    _deaths: ClassVar[tuple[str, ...]]
    """Names of the errors that report the death of a task's workers."""

    def __init__(self, settings: Settings) -> None:
        """Use the cluster at the address in the settings, or start one on this machine if there is none."""
        self._settings = settings
        self._address = settings.workers if "://" in settings.workers else ""
        self._stack = ExitStack()
        self._runner: Runner | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner = None
        self._stack.close()

    @property
    def count(self) -> int:
        """Number of workers, see `Workers.count`. A cluster may grow and shrink."""
        return self._processors(self._started())

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Map as `Workers.map` does. A single task runs in this process, which is faster than a cluster."""
        rest = iter(tasks)
        first = list(islice(rest, 2))
        if len(first) < 2:
            yield from map(function, first)
            return
        runner = self._started()
        perform_task = PERFORM.with_options(name=function.__name__)
        more = chain(first, rest)
        under_way: deque[tuple[Task, PrefectFuture[bytes]]] = deque()
        try:
            while True:
                # Two per processor: a slow task must neither keep the others waiting nor let them run far ahead
                to_submit = 2 * self._processors(runner) - len(under_way)
                under_way.extend(
                    (task, self._submit(runner, perform_task, pack(function, task)))
                    for task in islice(more, max(to_submit, 0))
                )
                if not under_way:
                    return
                yield self._result(function, *under_way.popleft())
        finally:  # an error, or the caller stops
            for _, future in under_way:
                self._cancel(future)

    def _submit(self, runner: Runner, perform_task: PrefectTask[[bytes], bytes], order: bytes) -> PrefectFuture[bytes]:
        return copy_context().run(submit_bare, runner, perform_task, order)

    def _result(self, function: Callable[[Task], Result], task: Task, future: PrefectFuture[bytes]) -> Result:
        try:
            answer = future.result()
        except TaskFailedError as failed:
            answer = failed.answer
        except Exception as error:
            if type(error).__name__ not in self._deaths:
                raise
            raise StageError(
                f"workers of the cluster died {ATTEMPTS} times on the same task, {shown(function, task)} ({error}): "
                "see their logs; if a machine is short of memory, start fewer workers on it"
            ) from None
        return cast(Result, unpack(answer))

    def _started(self) -> Runner:
        if self._runner is None:
            self._runner = self._start()
        return self._runner

    def _compare(self, ask: Callable[[Mapping[str, Path]], Mapping[str, Mapping[str, str]]]) -> None:
        """Refuse workers that would produce other results, or write them to another place.

        Args:
            ask: function that returns `_surroundings` of the marks on each worker.
        """
        with _marks(self._settings) as marks:
            needed = _surroundings(marks) | {"PREFECT_API_URL": "set"}
            surroundings_by_worker = ask(marks)
        for worker, surroundings in surroundings_by_worker.items():
            for name, value in needed.items():
                if surroundings.get(name, "missing") != value:
                    raise ConfigError(
                        f"NMT_WORKERS={self._settings.workers}: on the worker {worker}, {name} is "
                        f"{surroundings.get(name, 'missing')}, but must be {value} as on this machine: correct it and "
                        "restart the worker"
                    )

    @abstractmethod
    def _start(self) -> Runner:
        """Start or find the cluster. `_stack` ends it."""

    @abstractmethod
    def _processors(self, runner: Runner) -> int:
        """Return the number of tasks that the cluster can run at once now."""

    @abstractmethod
    def _cancel(self, future: PrefectFuture[bytes]) -> None:
        """Cancel a task whose result is no longer needed."""


class DaskWorkers(ClusterWorkers):
    """Dask cluster, through Prefect's DaskTaskRunner."""

    _deaths = ("KilledWorker",)

    def _start(self) -> Runner:
        runner_class, config = _extra("dask", "prefect_dask").DaskTaskRunner, _extra("dask", "dask").config
        if self._address:
            address = self._address.replace("dask://", "tcp://")
            runner = runner_class(address=address, client_kwargs={"timeout": _SECONDS_FOR_A_WORKER})
        else:
            options = _LOCAL_DASK | {"n_workers": self._settings.threads, "env": _environment()}
            runner = runner_class(cluster_kwargs=options)
        for name in {"PYTHONHASHSEED", "__DASK_PARENT_PID"} - os.environ.keys():  # set for workers, but here too
            self._stack.callback(os.environ.pop, name, None)
        self._stack.enter_context(runner)
        try:
            with config.set(_DASK_CONFIG):
                client = runner.client
            client.wait_for_workers(1, timeout=_SECONDS_FOR_A_WORKER)
        except (OSError, TimeoutError) as error:
            raise ConfigError(
                f"NMT_WORKERS={self._settings.workers}: no Dask worker answers ({error}): {_START}"
            ) from None
        self._compare(lambda marks: client.run(_surroundings, marks))
        return cast(Runner, runner)

    def _processors(self, runner: Runner) -> int:
        return max(1, sum(runner.client.nthreads().values()))  # type: ignore[attr-defined]  # of this runner alone

    def _cancel(self, future: PrefectFuture[bytes]) -> None:
        future.wrapped_future.cancel()  # type: ignore[attr-defined]


class RayWorkers(ClusterWorkers):
    """Ray cluster, through Prefect's RayTaskRunner."""

    _deaths = ("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError")

    def _start(self) -> Runner:
        runner_class, self._ray = _extra("ray", "prefect_ray").RayTaskRunner, _extra("ray", "ray")
        self._options = _extra("ray", "prefect_ray.context").remote_options
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"runtime_env": {"env_vars": _environment()}}
        if not self._address:
            options |= _LOCAL_RAY | {"num_cpus": self._settings.threads}
        runner = runner_class(address=self._address or None, init_kwargs=options)
        try:
            self._stack.enter_context(runner)
        except (OSError, RuntimeError) as error:
            raise ConfigError(
                f"NMT_WORKERS={self._settings.workers}: Ray does not answer ({error}): {_START}"
            ) from None
        if self._address:
            self._compare(self._surroundings_by_node)
        return cast(Runner, runner)

    def _surroundings_by_node(self, marks: Mapping[str, Path]) -> dict[str, dict[str, str]]:
        """Return the surroundings of each living node, by its address."""
        on_node = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        look = self._ray.remote(num_cpus=0)(_surroundings)
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        asked = [look.options(scheduling_strategy=on_node(node["NodeID"], soft=False)).remote(marks) for node in nodes]
        return dict(zip((node["NodeManagerAddress"] for node in nodes), self._ray.get(asked), strict=True))

    def _submit(self, runner: Runner, perform_task: PrefectTask[[bytes], bytes], order: bytes) -> PrefectFuture[bytes]:
        with self._options(max_retries=ATTEMPTS - 1):
            return super()._submit(runner, perform_task, order)

    def _processors(self, runner: Runner) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def _cancel(self, future: PrefectFuture[bytes]) -> None:
        self._ray.cancel(future.wrapped_future)  # type: ignore[attr-defined]


def _environment() -> dict[str, str]:
    """Return the environment of started workers. Without the address, each would start its own Prefect server."""
    api = PREFECT_API_URL.value() or str(get_client(sync_client=True).api_url)
    return WORKER_ENVIRONMENT | {"PREFECT_API_URL": api}


@contextmanager
def _marks(settings: Settings) -> Iterator[dict[str, Path]]:
    """Put a file of a new name into each folder that all machines must share, for the time of the block."""
    folders = {"NMT_HOME": settings.home}
    if settings.scratch and "://" not in settings.scratch:
        folders["NMT_SCRATCH"] = Path(settings.scratch)
    marks = {name: folder / f".shared-{uuid.uuid4().hex}" for name, folder in folders.items()}
    try:
        for mark in marks.values():
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        yield marks
    finally:
        for mark in marks.values():
            mark.unlink(missing_ok=True)


def _surroundings(marks: Mapping[str, Path]) -> dict[str, str]:
    """Return the values that must be the same on every worker.

    Args:
        marks: file in each shared folder, by the setting of the folder. A folder of the same name without it is another
            one, such as a disk of the worker's own.
    """
    surroundings = {name: version for name, version in versions().items() if name in _SAME_EVERYWHERE}
    surroundings["PREFECT_API_URL"] = "set" if PREFECT_API_URL.value() else "not set"
    for name, mark in marks.items():
        found = "the same" if mark.is_file() else "another one" if mark.parent.is_dir() else "missing"
        surroundings[f"the folder {name} ({mark.parent})"] = found
    return surroundings


def _extra(extra: str, module: str) -> Any:
    """Import a module of an optional extra, which may not be installed and may have no types."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"NMT_WORKERS: {error}: pip install 'nmt-pipeline[{extra}]'") from None
