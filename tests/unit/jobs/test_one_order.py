"""A job folder belongs to one order from its beginning to its end."""

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from nmt_core.errors import DataError, StageError
from nmt_core.jobs import run as run_module
from nmt_core.jobs.folder import Done, JobFolder, Parts
from nmt_core.jobs.order import Begun, Chunk, JobRequest, Order
from nmt_core.jobs.run import run_job
from nmt_core.store import storage

SECONDS = 120


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("the cat sees a dog.\nnow\n" * 20)
    return tmp_path / "in.txt"


@pytest.fixture(params=["folder", "memory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobFolder]:
    places = {"folder": str(tmp_path), "memory": "memory://orders"}
    yield JobFolder(f"{places.get(request.param) or request.getfixturevalue('s3_folder')}/job")
    fsspec.filesystem("memory").store.clear()


def orders(job: Any, source: Path, target: Path) -> tuple[Order, Order]:
    """Two orders that differ in the beam."""
    ours = job.order(source, target)
    return ours, ours.model_copy(update={"search": ours.search.model_copy(update={"beam_size": 2})})


class Held:
    """The real `stage`, which waits before it begins the first time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self._stage = run_module.stage
        patch.setattr(run_module, "stage", self)

    def __call__(self, order: Order, parts: Parts, on_rows: Any) -> tuple[Chunk, ...]:
        if not self.begun.is_set():
            self.begun.set()
            assert self.go.wait(SECONDS)
        return self._stage(order, parts, on_rows)


def test_another_order_is_refused_while_the_text_is_read(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = orders(job, source, tmp_path / "out.txt")
    held, found = Held(monkeypatch), []
    first = threading.Thread(
        target=lambda: found.append(run_job(JobRequest("tiny"), ours, job.folder(ours), job.means))
    )
    first.start()
    assert held.begun.wait(SECONDS)
    try:
        with pytest.raises(StageError, match=r"out\.txt\.job: holds another job.*search\.beam_size: 1, now 2"):
            run_job(JobRequest("tiny"), other, job.folder(other), job.means)
        assert not (tmp_path / "out.txt").exists()
    finally:
        held.go.set()
        first.join()
    assert found[0].done.fingerprint == ours.fingerprint and found[0].translated == 40
    assert run_job(JobRequest("tiny"), other, job.folder(other), job.means).done.number == 2, "the next job may begin"


def test_an_order_that_another_has_replaced_does_not_write_its_plan(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has no conditional create: both processes see that no job exists, and the last one to write wins."""
    ours, other = orders(job, source, tmp_path / "out.txt")
    folder, held = job.folder(ours), Held(monkeypatch)
    failed: list[StageError] = []

    def run_ours() -> None:
        with pytest.raises(StageError, match=r"holds another job.*beam_size: 2, now 1") as raised:
            run_job(JobRequest("tiny"), ours, folder, job.means)
        failed.append(raised.value)

    first = threading.Thread(target=run_ours)
    first.start()
    assert held.begun.wait(SECONDS)
    begun = folder.begun()
    theirs = begun.model_copy(update={"order": other})
    storage.write_bytes([theirs.model_dump_json().encode()], f"{folder.url}/order-1.json")
    held.go.set()
    first.join()
    assert failed and folder.plan() is None
    assert run_job(JobRequest("tiny"), other, folder, job.means).translated == 40


def test_of_many_orders_at_once_one_begins(job: Any, source: Path, folder: JobFolder) -> None:
    wanted = [job.order(source, f"/{number}.txt") for number in range(4)]
    first = folder.begin(JobRequest("tiny"), wanted[0])
    assert (first.order, first.number) == (wanted[0], 1)
    assert [folder.begin(JobRequest("tiny"), order) for order in wanted] == [first] * 4
    fingerprint = wanted[0].fingerprint
    folder.write(Done(fingerprint=fingerprint, number=1, model="", model_version="", statuses={}, outputs=()))
    assert folder.begun() is None
    second = folder.begin(JobRequest("tiny"), wanted[2])
    assert (second.order, second.number) == (wanted[2], 2)
    folder.clean_up()
    assert folder.begun() == second and storage.names_in(folder.url).count("order-1.json") == 0


def test_of_many_at_one_moment_one_begins(job: Any, source: Path, tmp_path: Path) -> None:
    wanted = [job.order(source, f"/{number}.txt") for number in range(8)]
    start, found = threading.Barrier(8), []

    def begin(order: Order) -> None:
        start.wait()
        found.append(JobFolder(str(tmp_path / "job")).begin(JobRequest("tiny"), order))

    threads = [threading.Thread(target=begin, args=(order,)) for order in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(begun == found[0] for begun in found)


def test_a_job_that_others_end_while_we_begin_is_not_done_again(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process has seen that the job is not done."""
    begin = JobFolder.begin

    def begin_late(self: JobFolder, asked: str, order: Order) -> Begun:
        monkeypatch.undo()
        others.append(run_job(asked, order, self, job.means))
        return begin(self, asked, order)

    others: list[Any] = []
    monkeypatch.setattr(JobFolder, "begin", begin_late)
    outcome = job.run(source, tmp_path / "out.txt")
    assert (outcome.done, outcome.reused, outcome.translated) == (others[0].done, True, 0)
    assert sorted(file.name for file in (tmp_path / "out.txt.job").iterdir()) == [
        "done.json",
        "plan.json",
        "profile.json",
    ]


def test_an_order_that_cannot_be_done_makes_room_for_a_better_one(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("number\twords\n1\tnow\n")
    with pytest.raises(DataError, match="words"):
        job.run(tmp_path / "in.tsv", tmp_path / "out.txt")
    assert job.run(tmp_path / "in.tsv", tmp_path / "out.txt", column="words").done.lines == 1


def test_a_text_that_was_touched_is_named_with_its_times_and_the_way_back(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run_module, "translate_chunk", stop)
        job.run(source, tmp_path / "out.txt")
    subprocess.run(["touch", "-d", "2024-03-01 10:00:00.25 UTC", source], check=True)
    changed = (
        r"has changed since \(480 bytes, changed 20.* UTC; now 480 bytes, changed 2024-03-01 10:00:00.250000000 UTC"
    )
    with pytest.raises(StageError, match=changed) as refused:
        job.run(source, tmp_path / "out.txt")
    said = str(refused.value)
    assert "If the text is the same, restore its modification time" in said and said.endswith(
        "name another folder with --job"
    )
    subprocess.run(said.split("`")[1], shell=True, check=True)  # as a person does who reads it
    assert job.run(source, tmp_path / "out.txt").translated == 40
