"""Tasks on a Dask cluster of two processes, through Prefect. (What kills its workers is in `tests/faults`.)"""

import itertools
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from prefect import flow, get_client, task
from prefect.client.schemas.filters import FlowRunFilter
from prefect.context import FlowRunContext
from support.facts import raises
from support.until import command_line, until

from flows.settings import Settings
from flows.workers import clusters
from flows.workers.clusters import DaskWorkers, RayWorkers, workers_for
from nmt_core.errors import ConfigError, DataError, StageError
from nmt_core.execution.pool import LocalWorkers
from nmt_core.store import storage


@pytest.fixture(scope="module")
def settings(prefect_api: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = str(tmp_path_factory.mktemp("home"))
    return Settings.load({"NMT_HOME": home, "NMT_THREADS": "2", "NMT_WORKERS": "dask"})


def listening() -> set[tuple[str, int]]:
    """Return addresses and ports on which this process and its descendants listen."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [each for process in processes for each in process.net_connections("tcp") if each.status == "LISTEN"]
    return {(each.laddr.ip, each.laddr.port) for each in sockets}


@pytest.fixture(scope="module")
def listening_before(settings: Settings) -> set[tuple[str, int]]:
    """Addresses on which earlier tests and Prefect's server listen. Their processes keep running."""
    return listening()


@pytest.fixture(scope="module")
def workers(settings: Settings, listening_before: set[tuple[str, int]]) -> Iterator[DaskWorkers]:
    """Cluster of this machine, of which nothing is left at the end."""
    before, children = os.environ.keys() | {"PYTEST_CURRENT_TEST"}, set(psutil.Process().children())
    with DaskWorkers(settings) as workers:
        yield workers
    left = [child for child in psutil.Process().children() if child not in children]
    assert not [child for child in left if "resource_tracker" not in " ".join(command_line(child))], (
        "Python's own stays"
    )
    assert os.environ.keys() == before


@pytest.mark.slow
@pytest.mark.cpu(25)  # it starts the cluster
def test_results_come_in_the_order_of_the_tasks(workers: DaskWorkers) -> None:
    assert list(workers.map(abs, range(-7, 0))) == list(range(7, 0, -1))
    assert list(workers.map(abs, [])) == []


@pytest.mark.slow
def test_the_tasks_are_done_by_two_other_processes(workers: DaskWorkers) -> None:
    assert workers.count == 2
    pids = set(workers.map(os.readlink, ["/proc/self"] * 6))
    assert len(pids) == 2 and str(os.getpid()) not in pids


@pytest.mark.slow
def test_a_single_task_is_done_in_this_process(workers: DaskWorkers) -> None:
    assert list(workers.map(os.readlink, ["/proc/self"])) == [str(os.getpid())]


@pytest.mark.slow
def test_tasks_are_taken_as_they_are_needed(workers: DaskWorkers) -> None:
    numbers = itertools.count()
    assert list(itertools.islice(workers.map(abs, numbers), 6)) == list(range(6))
    assert next(numbers) < 12


@pytest.mark.slow
def test_a_worker_has_one_thread_for_libraries_and_our_prefect_server(workers: DaskWorkers, prefect_api: str) -> None:
    assert list(workers.map(os.getenv, ["POLARS_MAX_THREADS", "PREFECT_API_URL"])) == ["1", prefect_api]


@pytest.mark.slow
def test_errors_come_back_as_they_were(workers: DaskWorkers, tmp_path: Path) -> None:
    results = workers.map(os.path.getsize, [str(tmp_path), str(tmp_path / "missing")])
    next(results)
    with pytest.raises(FileNotFoundError) as raised:
        next(results)
    assert raised.value.filename == str(tmp_path / "missing")
    assert "genericpath" in raised.value.__notes__[0]
    with pytest.raises(DataError) as wrong:
        list(workers.map(storage.read, [str(tmp_path / "missing")] * 2))
    assert type(wrong.value) is DataError


@pytest.mark.slow
@pytest.mark.cpu(25)
def test_a_task_that_kills_three_workers_is_an_error(workers: DaskWorkers) -> None:
    with pytest.raises(StageError, match=r"died 3 times on the same task, posix\._exit of 3.*logs"):
        list(workers.map(os._exit, [3, 3]))
    assert list(workers.map(abs, [-1, -2])) == [1, 2], "it keeps working"


@pytest.mark.slow
def test_it_listens_on_this_machine_alone(workers: DaskWorkers, listening_before: set[tuple[str, int]]) -> None:
    list(workers.map(abs, [1, 2]))
    places = listening() - listening_before
    assert {address for address, _ in places} == {"127.0.0.1"}, places


@pytest.mark.slow
def test_each_task_is_seen_in_prefect_as_one_of_the_flow(workers: DaskWorkers, tmp_path: Path) -> None:
    lock = threading.Lock()  # stands for what a stage holds on to

    @task
    def stage() -> None:
        with lock, pytest.raises(FileNotFoundError):
            list(workers.map(os.path.getsize, [str(tmp_path), str(tmp_path), str(tmp_path / "missing")]))

    @flow
    def stages(held: object) -> str:
        stage()
        context = FlowRunContext.get()
        assert context and context.flow_run and held
        return str(context.flow_run.id)

    run = FlowRunFilter.model_validate({"id": {"any_": [stages(lock)]}})
    with get_client(sync_client=True) as client:

        def seen() -> list[tuple[str, str]]:
            found = client.read_task_runs(flow_run_filter=run)
            return [(each.name.rsplit("-", 1)[0], str(each.state and each.state.name)) for each in found]

        def all_are() -> bool:
            states = seen()
            return states.count(("getsize", "Completed")) >= 2 and ("getsize", "Failed") in states

        until(all_are, lambda: str(seen()), every=0.2)


@pytest.mark.slow
def test_a_cluster_that_is_there_is_used_and_left_running(workers: DaskWorkers, settings: Settings) -> None:
    """The cluster is given by its address, which is all that is known about it."""
    address = workers._started().client.scheduler_info()["address"]  # type: ignore[attr-defined]  # Dask's runner
    environment = {"NMT_HOME": str(settings.home), "NMT_WORKERS": address.replace("tcp://", "dask://")}
    for _ in range(2):
        with workers_for(Settings.load(environment)) as others:
            assert others.count == 2
            assert list(others.map(abs, [-1, -2])) == [1, 2]
    assert list(workers.map(abs, [-1, -2])) == [1, 2]


@pytest.mark.cpu(15)  # it may be the first that needs a Prefect server
def test_workers_that_would_make_something_else_are_refused(settings: Settings) -> None:
    workers = DaskWorkers(settings)
    folder = f"the folder NMT_HOME ({settings.home})"

    def found(marks: Mapping[str, Path], **changes: str) -> dict[str, str]:
        return clusters._surroundings(marks) | {"PREFECT_API_URL": "set"} | changes

    workers._compare(lambda marks: {"tcp://1": found(marks)})
    for name, value in {"polars": "1.0.0", "PREFECT_API_URL": "not set", folder: "another one"}.items():
        with raises(ConfigError, re.escape(f"NMT_WORKERS=dask: on the worker tcp://2, {name} is {value}, but must be")):
            workers._compare(
                lambda marks, change={name: value}: {"tcp://1": found(marks), "tcp://2": found(marks, **change)}
            )
    assert not list(settings.home.glob(".shared-*")), "marks are removed"


def test_a_folder_of_the_same_name_that_is_not_shared_is_told_apart(settings: Settings, tmp_path: Path) -> None:
    scratch = Settings.load({"NMT_HOME": str(settings.home), "NMT_SCRATCH": str(tmp_path / "new" / "scratch")})
    with clusters._marks(scratch) as marks:
        assert set(marks) == {"NMT_HOME", "NMT_SCRATCH"}
        here = clusters._surroundings(marks)
        marks["NMT_HOME"].unlink()  # as on a machine with a folder of its own under this path
        elsewhere = clusters._surroundings(marks | {"NMT_SCRATCH": tmp_path / "nowhere" / "mark"})
    assert [value for name, value in here.items() if "folder" in name] == ["the same", "the same"]
    assert [value for name, value in elsewhere.items() if "folder" in name] == ["another one", "missing"]


def test_a_cluster_that_does_not_answer_is_an_error(
    settings: Settings, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_SECONDS_FOR_A_WORKER", 1)
    place = f"dask://127.0.0.1:{free_port}"
    environment = {"NMT_HOME": str(settings.home), "NMT_WORKERS": place}
    message = rf"NMT_WORKERS={place}: no Dask worker answers .*: start the cluster, or unset NMT_WORKERS"
    with pytest.raises(ConfigError, match=message), workers_for(Settings.load(environment)) as workers:
        list(workers.map(abs, [-1, -2]))


@pytest.mark.parametrize("kind", [DaskWorkers, RayWorkers])
def test_a_missing_extra_is_named(
    kind: type[DaskWorkers] | type[RayWorkers], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "dask" if kind is DaskWorkers else "ray"
    monkeypatch.setitem(sys.modules, f"prefect_{name}", None)
    with pytest.raises(ConfigError, match=rf"prefect_{name}.*pip install 'nmt-pipeline\[{name}\]'"):
        list(kind(settings).map(abs, [1, 2]))


def test_the_workers_of_one_machine_are_the_default() -> None:
    with workers_for(Settings.load({"NMT_THREADS": "3"})) as workers:
        assert isinstance(workers, LocalWorkers) and workers.count == 3
