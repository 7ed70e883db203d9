"""SIGKILL of a worker in the middle of the shuffle: the others finish with the bytes of an undisturbed shuffle.

The worker is stopped first. Sooner or later it holds a task that no other worker can do, and the work halts until the
worker is killed and another one takes its task. So no test here would end without the kill, or without the rescue.
"""

import hashlib
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest
from support.until import patient, until

from flows.settings import Settings
from flows.workers.clusters import workers_for
from nmt_core.config import CleanConfig
from nmt_core.corpus.duplicates import exact
from nmt_core.execution.pool import InProcess

SHARDS, ROWS = 20, 50_000
CONFIG = CleanConfig()
CHILDREN = {"local": "nmt_core.execution.child ", "dask": "multiprocessing.spawn", "ray": "ray::_"}
"""Part of the command line of a worker. Ray names a worker after its task, while it does one of ours."""


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Two workers of one kind."""
    if request.param != "local":
        request.getfixturevalue("prefect_api")
    return Settings.load({"NMT_HOME": str(tmp_path), "NMT_THREADS": "2", "NMT_WORKERS": request.param})


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Shards of a million pairs, many of them repeated."""
    folder = tmp_path_factory.mktemp("shards")
    random = np.random.default_rng(1)
    spread = np.uint64(0x9E3779B97F4A7C15)  # odd: different numbers become different keys, all over the range
    files = [folder / f"{number:05d}.parquet" for number in range(SHARDS)]
    for number, file in enumerate(files):
        pairs = random.integers(0, 400_000, ROWS, np.uint64)
        places = np.arange(number * ROWS, (number + 1) * ROWS, dtype=np.uint64)
        pl.DataFrame({"place": places, "pair_key": pairs * spread}).write_parquet(file)
    return [str(file) for file in files]


@pytest.fixture(scope="module")
def undisturbed(shards: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    scratch = tmp_path_factory.mktemp("undisturbed")
    drops = exact.deduplicate(shards, CONFIG, str(scratch), InProcess())
    assert sum(len(exact.read_drops(url)) for url in drops) > 500_000
    return digests(scratch)


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


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


MAP, REDUCE = "pair-map-00006.bin", "pair-reduce-00004.bin"
faults, nightly = pytest.mark.faults, pytest.mark.nightly


@pytest.mark.parametrize(
    ("settings", "file"),
    [
        ("local", MAP),
        pytest.param("local", REDUCE, marks=nightly),
        pytest.param("dask", MAP, marks=nightly),
        pytest.param("dask", REDUCE, marks=[faults, pytest.mark.cpu(30)]),
        pytest.param("ray", MAP, marks=faults),
        pytest.param("ray", REDUCE, marks=nightly),
    ],
    indirect=["settings"],
)
def test_the_result_of_the_shuffle_is_the_same(
    file: str, settings: Settings, shards: list[str], undisturbed: dict[str, str], tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    others = workers_of(settings.workers, [])
    killer = Killer(settings.workers, scratch, file, others)
    with workers_for(settings) as workers:
        assert workers.count == 2
        killer.start()
        try:
            exact.deduplicate(shards, CONFIG, str(scratch), workers)
        finally:
            killer.over = True
            killer.join()
    assert killer.killed, "the shuffle ended before a worker could be killed"
    assert digests(scratch) == undisturbed
    assert not workers_of(settings.workers, others)
