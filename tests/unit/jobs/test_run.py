"""A job resumes from wherever it stopped, and ends with the bytes of an undisturbed one."""

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pyarrow.parquet as pq
import pytest

from nmt_core.config import SearchConfig
from nmt_core.errors import DataError, ModelError, StageError
from nmt_core.execution.pool import LocalWorkers
from nmt_core.jobs import run as run_module
from nmt_core.jobs import writers
from nmt_core.jobs.checks import FAULTS
from nmt_core.jobs.chunk import Bundle, ChunkResult, ChunkTask, translate_chunk
from nmt_core.jobs.claims import Claims
from nmt_core.jobs.order import JobRequest
from nmt_core.jobs.run import run_job
from nmt_core.store import storage
from nmt_core.translator import Translator

LINES = ["the cat sees a dog.", "", "나는 학생 이다.", "now", " \t ", "a big house and a small house", "to it to it"]


class StoppedError(Exception):
    pass


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Seventy lines, which are nine chunks."""
    file = tmp_path / "in.txt"
    file.write_text("".join(f"{line} {number % 3}\n" if line else "\n" for number, line in enumerate(LINES * 10)))
    return file


@pytest.fixture(scope="module")
def kept() -> list[bytes]:
    """Output of a job that nothing disturbs, once one has run."""
    return []


@pytest.fixture
def undisturbed(job: Any, source: Path, tmp_path: Path, kept: list[bytes]) -> bytes:
    if not kept:
        job.run(source, tmp_path / "undisturbed.parquet")
        kept.append((tmp_path / "undisturbed.parquet").read_bytes())
    return kept[0]


def stop_after(chunks: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stop the job after this many chunks, as a signal would, and return the numbers of the chunks that it began."""
    begun: list[int] = []

    def translate_some(task: ChunkTask) -> ChunkResult:
        if len(begun) == chunks:
            raise StoppedError
        begun.append(task.number)
        return translate_chunk(task)

    monkeypatch.setattr(run_module, "translate_chunk", translate_some)
    return begun


def stop(*_: object) -> None:
    raise StoppedError


def test_every_line_has_its_line_and_the_journal_alone_is_left(job: Any, source: Path, tmp_path: Path) -> None:
    given_up = tmp_path / "out.txt.job" / f"parts-{'a' * 32}" / "input"
    given_up.mkdir(parents=True)
    done = job.run(source, tmp_path / "out.txt")
    lines = (tmp_path / "out.txt").read_text().split("\n")
    assert (len(lines), lines[-1], lines[1]) == (71, "", "")
    assert sum(map(bool, lines)) > 40
    assert done.done.lines == 70 and done.done.statuses["empty"] == 10
    assert job.notes[-2][:2] == (70, 70) and "lines/s, 0:00:00 left" in job.notes[-2][2]
    assert sorted(file.name for file in (tmp_path / "out.txt.job").iterdir()) == [
        "done.json",
        "plan.json",
        "profile.json",
    ]
    assert not list(tmp_path.glob("*.partial"))


def test_the_target_tokens_are_counted(job: Any, source: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    search = SearchConfig(beam_size=1, n_best=1, max_length_offset=8)
    outcome = job.run(source, tmp_path / "out.txt", search=search)
    found = Translator.load(tiny_bundle, search).translate(source.read_text().splitlines())
    assert outcome.done.tokens == sum(one.tokens for one in found) > 70


@pytest.mark.parametrize("chunks", [0, 1, 5, 9])
def test_a_stopped_job_resumes_and_ends_with_the_same_bytes(
    chunks: int, job: Any, source: Path, tmp_path: Path, undisturbed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_after(chunks, patch)
        if chunks == 9:  # all are there: it stops when it writes the output
            patch.setattr(run_module, "merge", stop)
        with pytest.raises(StoppedError):
            job.run(source, tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    with monkeypatch.context() as patch:
        again = stop_after(9, patch)
        done = job.run(source, tmp_path / "out.parquet")
    assert again == list(range(chunks, 9)), "what is done is not done again"
    assert done.translated == max(70 - 8 * chunks, 0)
    assert (tmp_path / "out.parquet").read_bytes() == undisturbed


def test_tokens_are_not_counted_if_an_earlier_version_translated_a_part(
    job: Any, source: Path, tmp_path: Path, undisturbed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_after(1, patch)
        with pytest.raises(StoppedError):
            job.run(source, tmp_path / "out.parquet")
    (chunk,) = (tmp_path / "out.parquet.job").glob("parts-*/output/*.parquet")
    pl.read_parquet(chunk).drop("tokens").write_parquet(chunk)
    assert job.run(source, tmp_path / "out.parquet").done.tokens is None
    assert (tmp_path / "out.parquet").read_bytes() == undisturbed


def test_it_stops_while_the_text_is_cut(
    job: Any, source: Path, tmp_path: Path, undisturbed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nmt_core.jobs import staging

    def write_three(group: list[Any], url: str) -> None:
        if url.endswith("0000003.parquet"):
            raise StoppedError
        former(group, url)

    former = staging._write
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(staging, "_write", write_three)
        job.run(source, tmp_path / "out.parquet")
    order = job.order(source, tmp_path / "out.parquet")
    assert job.folder(order).plan() is None
    assert job.folder(order).parts(order.fingerprint).staged() == {0, 1, 2}
    written: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(staging, "_write", lambda group, url: (written.append(url[-15:]), former(group, url)))
        job.run(source, tmp_path / "out.parquet")
    assert written == [f"{number:07d}.parquet" for number in range(3, 9)], "what was cut is not cut again"
    assert (tmp_path / "out.parquet").read_bytes() == undisturbed


def test_a_text_that_changes_while_it_is_read_is_refused(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nmt_core.jobs import staging

    order = job.order(source, tmp_path / "out.txt")

    def write_and_change(group: list[Any], url: str) -> None:
        source.write_text("now\n")
        former(group, url)

    former = staging._write
    message = rf"{source}: is gone or has changed since the job began: restore the file of 1,050 bytes"
    with monkeypatch.context() as patch, pytest.raises(DataError, match=message):
        patch.setattr(staging, "_write", write_and_change)
        run_job(JobRequest("tiny"), order, job.folder(order), job.means)
    with pytest.raises(DataError, match=message):
        run_job(JobRequest("tiny"), order, job.folder(order), job.means)
    assert job.folder(order).plan() is None


def test_what_is_done_is_not_done_again_unless_the_output_is_gone(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = job.order(source, tmp_path / "out.txt")
    assert run_job(JobRequest("tiny"), order, job.folder(order), job.means).reused is False
    first = (tmp_path / "out.txt").read_bytes()
    begun = stop_after(99, monkeypatch)
    assert run_job(JobRequest("tiny"), order, job.folder(order), job.means).reused is True
    assert begun == []
    (tmp_path / "out.txt").unlink()
    assert run_job(JobRequest("tiny"), order, job.folder(order), job.means).reused is False
    assert (tmp_path / "out.txt").read_bytes() == first and len(begun) == 9


def test_a_job_that_is_done_leaves_the_next_one_alone(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = job.order(source, tmp_path / "out.txt")
    job.run(source, tmp_path / "out.txt")
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_after(3, patch)
        job.run(source, tmp_path / "out.txt", chunk_lines=7)
    assert run_job(JobRequest("tiny"), former, job.folder(former), job.means).reused
    assert job.run(source, tmp_path / "out.txt", chunk_lines=7).translated == 70 - 3 * 7


def test_another_input_or_model_is_refused_until_the_job_is_done(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.txt"
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_after(2, patch)
        job.run(source, target)
    former = job.order(source, target)
    other = former.model.model_copy(update={"version": "2"})
    with pytest.raises(
        StageError, match=r"out\.txt\.job: holds another job.* model: tiny version 1, now tiny version 2"
    ):
        job.run(source, target, model=other)
    with pytest.raises(
        StageError, match=r"search\.beam_size: 1, now 3\. Finish it with the command that began it, or name .* --job"
    ):
        job.run(source, target, search=former.search.model_copy(update={"beam_size": 3}))
    content = source.read_bytes()
    source.write_bytes(content + b"more\n")
    with pytest.raises(StageError, match=rf"input {source}: has changed since \(1,050 bytes.*; now 1,055 bytes.*\)"):
        job.run(source, target)
    source.write_bytes(content)
    os.utime(source, ns=(0, int(former.inputs[0].version)))
    job.run(source, target)
    source.write_bytes(content + b"more\n")
    assert job.run(source, target).done.lines == 71, "a job that is done makes room for the next"


def test_a_bundle_that_has_changed_is_refused(job: Any, source: Path, tmp_path: Path) -> None:
    order = job.order(source, tmp_path / "out.txt")
    pinned = order.model_copy(update={"model": order.model.model_copy(update={"sha256": "0" * 64})})
    with pytest.raises(ModelError, match="is not the model with which the job began"):
        run_job(JobRequest("tiny"), pinned, job.folder(order), job.means)


def test_a_chunk_of_another_process_is_waited_for_and_a_lost_one_is_taken_over(
    job: Any, source: Path, tmp_path: Path, undisturbed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds two chunks.

    It finishes the first after a while, and never the second, because it has died.
    """
    order = job.order(source, tmp_path / "out.parquet")
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_after(0, patch)
        job.run(source, tmp_path / "out.parquet")
    parts = job.folder(order).parts(order.fingerprint)
    theirs = Claims(parts.claims, seconds=1.0)
    monkeypatch.setattr("nmt_core.jobs.claims.socket.gethostname", lambda: "elsewhere")
    assert theirs._take(f"{parts.claims}/0000005.json")
    assert theirs._take(f"{parts.claims}/0000002.json")
    monkeypatch.undo()
    done = job.run(source, tmp_path / "out.parquet")
    assert done.translated == 70
    assert (tmp_path / "out.parquet").read_bytes() == undisturbed


@pytest.mark.parametrize("store", ["folder", "memory", "s3"])
def test_several_attempts_at_once_share_the_chunks(
    store: str, job: Any, source: Path, tmp_path: Path, undisturbed: bytes, request: pytest.FixtureRequest
) -> None:
    place = {"folder": str(tmp_path), "memory": "memory://shared"}.get(store) or request.getfixturevalue("s3_folder")
    order = job.order(source, f"{place}/out.parquet")
    found: list[Any] = []
    attempts = [
        threading.Thread(target=lambda: found.append(run_job(JobRequest("tiny"), order, job.folder(order), job.means)))
        for _ in range(3)
    ]
    for attempt in attempts:
        attempt.start()
    for attempt in attempts:
        attempt.join()
    assert [outcome.done for outcome in found] == [found[0].done] * 3
    assert sum(outcome.translated for outcome in found) >= 70
    with fsspec.open(f"{place}/out.parquet") as file:
        assert file.read() == undisturbed
    fsspec.filesystem("memory").store.clear()


def test_processes_do_the_chunks_and_make_the_same(
    job: Any, source: Path, tmp_path: Path, undisturbed: bytes, three_workers: LocalWorkers
) -> None:
    order = job.order(source, tmp_path / "out.parquet")
    means = run_module.Means(job.means.bundle, workers=three_workers)
    run_job(JobRequest("tiny"), order, job.folder(order), means)
    assert (tmp_path / "out.parquet").read_bytes() == undisturbed


def test_what_cannot_be_written_says_where_and_keeps_the_chunks(job: Any, source: Path, tmp_path: Path) -> None:
    order = job.order(source, tmp_path / "no folder" / "out.txt")
    folder = run_module.JobFolder(str(tmp_path / "job"))

    def be_in_the_way(done: float, total: float, note: str) -> None:
        if note == "writing the output":
            (tmp_path / "no folder").write_text("a file")

    with pytest.raises(StageError, match=r"no folder.*: fix this, then run the same command again \(9 chunks are done"):
        run_job(JobRequest("tiny"), order, folder, replace(job.means, progress=be_in_the_way))


@pytest.mark.parametrize("error", [FileNotFoundError("0000000.parquet.01.partial"), DataError("no such file")])
def test_one_that_comes_back_to_life_when_all_is_done_says_so(
    error: Exception, job: Any, source: Path, tmp_path: Path, undisturbed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has finished the job meanwhile, and removed the files that this one needed."""

    def sleep_till_the_end(task: ChunkTask) -> ChunkResult:
        monkeypatch.undo()
        others.append(job.run(source, tmp_path / "out.parquet"))
        Path(task.parts.root, "output").mkdir(parents=True)
        raise error

    others: list[Any] = []
    monkeypatch.setattr(run_module, "translate_chunk", sleep_till_the_end)
    outcome = job.run(source, tmp_path / "out.parquet")
    assert (outcome.done, outcome.reused, outcome.translated) == (others[0].done, False, 0)
    assert (tmp_path / "out.parquet").read_bytes() == undisturbed
    assert sorted(file.name for file in (tmp_path / "out.parquet.job").iterdir()) == [
        "done.json",
        "plan.json",
        "profile.json",
    ]


def test_rows_that_go_while_they_are_read_belong_to_a_job_that_others_have_ended(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = job.order(source, tmp_path / "out.txt")
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_after(0, patch)
        job.run(source, tmp_path / "out.txt")
    parts = job.folder(order).parts(order.fingerprint)
    bundle = Bundle(job.means.bundle, order.model.sha256, order.search, 1)
    read = storage.read

    def lose(url: str) -> pl.DataFrame:
        Path(url).unlink()
        return read(url)

    monkeypatch.setattr(storage, "read", lose)
    assert translate_chunk(ChunkTask(3, parts, bundle, Claims(parts.claims), 70)) == ChunkResult(3, "gone")


@pytest.mark.parametrize(("name", "has_scores"), [("out.txt", False), ("out.parquet", True), ("out.tsv", True)])
def test_scores_are_computed_where_the_output_has_room_for_them(
    name: str, has_scores: bool, job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = job.order(source, tmp_path / name)
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_after(2, patch)
        job.run(source, tmp_path / name)
    parts = job.folder(order).parts(order.fingerprint)
    done = pl.concat(pl.read_parquet(parts.output(number)) for number in sorted(parts.translated()))
    translated = done.filter(pl.col("status").is_in(["ok", "unfinished", *FAULTS]))
    assert translated.height > 5
    assert translated["score"].is_finite().sum() == (translated.height if has_scores else 0)
    assert translated["score"].null_count() == (0 if has_scores else translated.height)


def test_a_damaged_chunk_or_journal_is_named(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = job.order(source, tmp_path / "out.txt")
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_after(3, patch)
        job.run(source, tmp_path / "out.txt")
    chunk = Path(job.folder(order).parts(order.fingerprint).output(1))
    chunk.write_bytes(chunk.read_bytes()[:-9])
    with pytest.raises(DataError, match=rf"{chunk}: cannot be read as Parquet.* remove it; run again"):
        job.run(source, tmp_path / "out.txt")
    chunk.unlink()
    job.run(source, tmp_path / "out.txt")
    plan = tmp_path / "out.txt.job" / "plan.json"
    plan.write_text("{")
    with pytest.raises(DataError, match=r"plan\.json: is damaged, .* start it in another folder"):
        job.run(source, tmp_path / "out.txt", column="x")


def test_a_row_group_of_long_lines_ends_early(
    job: Any, tmp_path: Path, three_workers: LocalWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group ends at the same row with any workers, and after an interruption."""
    monkeypatch.setattr(writers, "_GROUP_BYTES", 250_000)
    (tmp_path / "in.txt").write_text(f"{'the cat sees it. ' * 5_882}\n" * 6)
    order = {"search": job.search.model_copy(update={"long_lines": "cut"}), "chunk_lines": 2}
    job.run(tmp_path / "in.txt", tmp_path / "alone.parquet", **order)
    file = pq.ParquetFile(tmp_path / "alone.parquet")
    assert [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)] == [4, 2]
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_after(2, patch)
        job.run(tmp_path / "in.txt", tmp_path / "stopped.parquet", **order)
    job.run(tmp_path / "in.txt", tmp_path / "stopped.parquet", **order)
    shared = replace(job, means=replace(job.means, workers=three_workers))
    shared.run(tmp_path / "in.txt", tmp_path / "shared.parquet", **order)
    for name in ("stopped", "shared"):
        assert (tmp_path / f"{name}.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()
