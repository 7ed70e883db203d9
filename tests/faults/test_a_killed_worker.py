"""SIGKILL of a worker in the middle of the shuffle: the others finish with the bytes of an undisturbed shuffle.

The worker is stopped first. Sooner or later it holds a task that no other worker can do, and the work halts until the
worker is killed and another one takes its task. So no test here would end without the kill, or without the rescue.
"""

import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from support.shuffles import FIRST_MAP, REDUCE, digests, find_copies, write_shards
from support.until import patient, until

from flows.settings import Settings
from flows.workers.clusters import workers_for
from nmt_core.execution.pool import InProcess

CHILDREN = {"local": "nmt_core.execution.child ", "dask": "multiprocessing.spawn", "ray": "ray::_"}
"""Part of the command line of a worker. Ray names a worker after its task, while it does one of ours."""


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Two workers of one kind."""
    if request.param != "local":
        request.getfixturevalue("prefect_api")
    return Settings.load({"NMT_HOME": str(tmp_path), "NMT_THREADS": "2", "NMT_WORKERS": request.param})


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    scratch = tmp_path_factory.mktemp("undisturbed")
    find_copies(shards, scratch, InProcess())
    return digests(scratch)


class Killer(threading.Thread):
    """Stop a worker as soon as a file exists, and kill it when nothing has been written for a while."""

    def __init__(self, kind: str, scratch: Path, file: str, others: list[psutil.Process]) -> None:
        super().__init__()
        self.kind, self.scratch, self.file, self.others = kind, scratch, scratch / file, others
        self.killed = 0
        self.over = False

    def run(self) -> None:
        until(lambda: self.over or self.file.exists(), every=0.001)
        found = until(lambda: self.over or workers_of(self.kind, self.others), every=0.001)
        if self.over:
            return
        victim = found[0]
        victim.send_signal(signal.SIGSTOP)
        self._wait_for_a_halt()
        if not self.over:
            self.killed = victim.pid
            victim.kill()

    def _wait_for_a_halt(self) -> None:
        before, since = None, time.monotonic()
        while time.monotonic() < since + patient(1):
            now = sorted(file.name for file in self.scratch.iterdir())
            if now != before:
                before, since = now, time.monotonic()
            time.sleep(0.05)


def workers_of(kind: str, others: list[psutil.Process]) -> list[psutil.Process]:
    """Children of this process that look like workers, without those that other tests may have left."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child not in others and CHILDREN[kind] in " ".join(child.cmdline()):
                found.append(child)
    return found


faults, nightly = pytest.mark.faults, pytest.mark.nightly


@pytest.mark.parametrize(
    ("settings", "file"),
    [
        ("local", FIRST_MAP),
        pytest.param("local", REDUCE, marks=nightly),
        pytest.param("dask", FIRST_MAP, marks=nightly),
        pytest.param("dask", REDUCE, marks=[faults, pytest.mark.cpu(30)]),
        pytest.param("ray", FIRST_MAP, marks=faults),
        pytest.param("ray", REDUCE, marks=nightly),
    ],
    indirect=["settings"],
)
def test_the_result_of_the_shuffle_is_the_same(
    file: str, settings: Settings, shards: Path, undisturbed: dict[str, str], tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    others = workers_of(settings.workers, [])
    killer = Killer(settings.workers, scratch, file, others)
    with workers_for(settings) as workers:
        assert workers.count == 2
        killer.start()
        try:
            find_copies(shards, scratch, workers)
        finally:
            killer.over = True
            killer.join()
    assert killer.killed, "the shuffle ended before a worker could be killed"
    assert digests(scratch) == undisturbed
    assert not workers_of(settings.workers, others)
