"""Mishaps of jobs: text that changes, orders that no model can fulfil, names that mean something elsewhere."""

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from nmt_core.errors import ConfigError, DataError, NmtError, StageError
from nmt_core.jobs import run as run_module
from nmt_core.jobs import staging
from nmt_core.jobs.folder import Done, JobFolder
from nmt_core.jobs.inputs import absolute, find_inputs
from nmt_core.jobs.order import JobRequest
from nmt_core.jobs.pace import Pace
from nmt_core.jobs.run import run_job
from nmt_core.store import storage


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Forty lines, which are five chunks."""
    (tmp_path / "in.txt").write_text("the cat sees a dog.\nnow\n" * 20)
    return tmp_path / "in.txt"


def stop(*_: object) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["a::b", "s3::x", "[1]", "a b", "ü#?%20", "a:b@c"])
def test_a_folder_may_have_any_name(name: str, job: Any, source: Path, tmp_path: Path) -> None:
    """fsspec takes some of these names for addresses."""
    (tmp_path / name).mkdir()
    source = source.rename(tmp_path / name / "in.txt")
    assert job.run(source, tmp_path / name / "out.txt").done.lines == 40
    assert sorted(os.listdir(tmp_path / name)) == ["in.txt", "out.txt", "out.txt.job"]  # noqa: PTH208
    assert sorted(storage.names_in(str(tmp_path / name / "out.txt.job"))) == ["done.json", "plan.json", "profile.json"]


def test_parts_that_vanish_as_soon_as_they_are_written_are_named(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_write", lambda group, url: None)
    with pytest.raises(StageError, match=r"parts-.*: a file that was just written there is missing: make sure"):
        job.run(source, tmp_path / "out.txt")


@pytest.mark.parametrize("is_killed", [False, True])
def test_no_chunk_of_a_text_that_changed_while_it_was_read_is_kept(
    is_killed: bool, job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user changes a line in its middle and restores it, with its time. The output is the output of neither text."""
    content, times = source.read_bytes(), source.stat()
    order = job.order(source, tmp_path / "out.txt")
    write = staging._write
    written: list[str] = []

    def write_two(group: list[Any], url: str) -> None:
        write(group, url)
        written.append(url)
        if len(written) == 2:
            source.write_bytes(content.replace(b"cat", b"dog"))
            if is_killed:
                stop()

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt if is_killed else DataError):
        patch.setattr(staging, "_write", write_two)
        run_job(JobRequest("tiny"), order, job.folder(order), job.means)
    assert len(written) == 2
    source.write_bytes(content)
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    job.run(source, tmp_path / "out.jsonl")
    undisturbed = [line.split('"translation"')[0] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert job.order(source, tmp_path / "out.txt") == order
    assert run_job(JobRequest("tiny"), order, job.folder(order), job.means).done.lines == 40
    assert len(undisturbed) == 40 and all("dog" not in line or "cat" in line for line in undisturbed)
    job.run(source, tmp_path / "again.txt")
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "again.txt").read_bytes()


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({"precision": "fp16"}, r"search\.precision=fp16"),
        ({"shortlist": "always"}, "has no shortlist"),
        ({"source_prefix": "<2xx>"}, r"search\.source_prefix='<2xx>'"),
        ({"max_source_tokens": 4_000}, "positions"),
    ],
)
def test_an_order_that_the_model_cannot_do_is_refused_before_the_text_is_read(
    search: dict[str, Any], words: str, job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = job.search.model_copy(update=search)
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "stage", lambda *_: pytest.fail("the text was read"))
        with pytest.raises(ConfigError, match=words):
            job.run(source, tmp_path / "out.txt", search=asked)
    folder = job.folder(job.order(source, tmp_path / "out.txt"))
    assert folder.begun() is None and storage.names_in(folder.url) == []
    assert job.run(source, tmp_path / "out.txt").done.number == 1, "its folder is free"


def test_what_others_keep_in_the_folder_of_a_job_stays(job: Any, source: Path, tmp_path: Path) -> None:
    kept = tmp_path / "job" / ("0" * 32) / "precious"
    kept.parent.mkdir(parents=True)
    kept.write_text("kept")
    (tmp_path / "job" / "parts-of-mine").mkdir()
    order = job.order(source, tmp_path / "out.txt")
    run_job(JobRequest("tiny"), order, JobFolder(str(tmp_path / "job")), job.means)
    names = sorted(path.name for path in (tmp_path / "job").iterdir())
    assert names == ["0" * 32, "done.json", "parts-of-mine", "plan.json", "profile.json"] and kept.read_text() == "kept"


@pytest.mark.parametrize("moment", ["output", "done"])
def test_one_that_sleeps_while_others_end_the_job_and_the_next_one_writes_nothing_over_it(
    moment: str, job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, target = job.order(source, tmp_path / "out.txt"), tmp_path / "out.txt"
    others: list[Any] = []
    merge, asleep = run_module.merge, threading.Event()

    def let_others_do_it() -> None:
        asleep.set()
        others.append(run_job(JobRequest("tiny"), ours, job.folder(ours), job.means))
        others.append(job.run(source, target, search=job.search.model_copy(update={"max_length_offset": 2})))
        target.write_bytes(b"of the last job\n")

    def merge_slowly(plan: Any, parts: Any, former: Any, see: Callable[[], None]) -> Any:
        def ask() -> None:
            if moment == "output" and not asleep.is_set():
                let_others_do_it()
            see()

        statuses = merge(plan, parts, former, ask)
        if moment == "done" and not asleep.is_set():
            let_others_do_it()
        return statuses

    monkeypatch.setattr(run_module, "merge", merge_slowly)
    monkeypatch.setattr("nmt_core.jobs.claims.Claim.holds", False)  # they take us for dead
    with pytest.raises(NmtError, match="another worker has finished this job meanwhile: this attempt writes nothing"):
        run_job(JobRequest("tiny"), ours, job.folder(ours), job.means)
    done = job.folder(ours).done()
    assert [outcome.done.number for outcome in others] == [1, 2] and done == others[1].done
    assert target.read_bytes() == b"of the last job\n" and not list(tmp_path.glob("*.partial"))


def test_what_lies_beside_earlier_outputs_is_no_text(job: Any, tmp_path: Path) -> None:
    """A folder that contains outputs of jobs may be translated as well."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.txt", "a.txt.unreadable.jsonl", "a.txt.alignment", "a.txt.alignment.gz", "b.alignment", "c.job"):
        (folder / name).write_bytes(b"now\n")
    for name in ("a.txt.job", "d.job"):
        (folder / name / "parts").mkdir(parents=True)
        (folder / name / "done.json").write_text("{}\n")
    names = [file.name for file in find_inputs(str(folder)).files]
    assert names == ["a.txt", "b.alignment", "c.job", "d.job/done.json"]
    assert job.run(folder / "a.txt.alignment", tmp_path / "out.txt").done.lines == 1, "unless it is named"


@pytest.mark.parametrize("is_ours", [False, True])
def test_a_second_file_is_removed_only_if_an_earlier_job_has_written_it(
    is_ours: bool, job: Any, source: Path, tmp_path: Path, int8_bundle: Path
) -> None:
    order = job.order(source, tmp_path / "out.txt")
    second = tmp_path / "out.txt.alignment"
    second.write_text("of another program\n")
    if is_ours:
        written = find_inputs(str(second)).files
        counts: dict[str, Any] = {"statuses": {}, "model": "", "model_version": ""}
        job.folder(order).write(Done(fingerprint="", number=1, outputs=written, **counts))
    job.run(source, tmp_path / "out.txt")
    assert second.exists() is not is_ours


@pytest.mark.parametrize("protocol", ["s3", "s3a"])
def test_an_address_is_one_whatever_its_protocol_is_called(protocol: str, s3_folder: str, job: Any) -> None:
    for name in ("in.txt", "other.txt"):
        storage.write_bytes([b"now\n"], f"{s3_folder}/{name}")
    place = f"{s3_folder}/in.txt".replace("s3://", f"{protocol}://")
    assert absolute(place) == f"{s3_folder}/in.txt"
    with pytest.raises(DataError, match="is both input and output"):
        find_inputs(f"{s3_folder}/in.txt", [absolute(place)])
    order = job.order(f"{s3_folder}/other.txt", place).model_copy(update={"inputs": find_inputs(place).files})
    with pytest.raises(DataError, match=r"in\.txt: is an output, but also the input s3://.*in\.txt"):
        run_job(JobRequest("tiny"), order, job.folder(order), job.means)
    assert fsspec.filesystem("s3").cat_file(f"{s3_folder}/in.txt") == b"now\n"


def test_a_folder_into_itself_is_called_that(source: Path) -> None:
    with pytest.raises(DataError, match=rf"{source.parent}: is both input and output"):
        find_inputs(str(source.parent), [str(source.parent)])


def test_a_disk_that_fails_is_not_called_a_damaged_text_and_keeps_what_was_read(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = job.order(source, tmp_path / "out.txt")
    write = staging._write

    def fail_after_one(group: list[Any], url: str) -> None:
        write(group, url)
        raise OSError(errno.EIO, "Input/output error", str(source))

    with monkeypatch.context() as patch, pytest.raises(StageError, match=r"in\.txt: Input/output error: fix this"):
        patch.setattr(staging, "_write", fail_after_one)
        run_job(JobRequest("tiny"), order, job.folder(order), job.means)
    folder = job.folder(order)
    assert folder.begun() and folder.parts(order.fingerprint).staged() == {0}


def test_the_pace_and_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    notes: list[tuple[float, float, str]] = []
    pace = Pace(10_000_000, 1_000_000, lambda *note: notes.append(note))
    for seconds in (100.0, 10_000.0):
        clock[0] = seconds
        pace.add(40_000)
    assert notes == [
        (1_040_000, 10_000_000, "400 lines/s, 6:13:20 left"),
        (1_080_000, 10_000_000, "8 lines/s, 309:43:20 left"),
    ]


def test_a_file_is_safe_from_a_loss_of_power_before_it_gets_its_name(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that has its name is complete: its bytes, and then the names of its folder, have been flushed."""
    done: list[tuple[str, str]] = []
    fsync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        done.append(("sync", str(Path(f"/proc/self/fd/{handle}").readlink())))
        fsync(handle)

    def named(self: Path, target: Path) -> Path:
        done.append(("sync names later", str(self)))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", named)
    job.run(source, tmp_path / "out.txt")
    drafts = [name for what, name in done if what != "sync" and "/claims/" not in name]
    assert len(drafts) == 5 + 5 + 4, "chunks, their translations, plan, output, profile and what is done"
    for draft in drafts:
        renamed = done.index(("sync names later", draft))
        assert ("sync", draft) in done[:renamed]
        assert done[renamed + 1] == ("sync", str(Path(draft).parent))
