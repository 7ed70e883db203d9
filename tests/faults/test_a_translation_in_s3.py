"""Text, job and output in S3: SIGKILL, lost workers and a store that disappears change no byte of the output."""

import gzip
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import psutil
import pytest
from support.until import command_line, patient, until

from flows.servers.servers import Server
from nmt_core.jobs.folder import JobFolder, Parts, exists
from nmt_core.store import storage

faults, nightly = pytest.mark.faults, pytest.mark.nightly

FILES, LINES = 3, 4_000
CHUNKS = FILES * 8
SECONDS = 240


def texts() -> dict[str, bytes]:
    """Packed JSONL files with lines of all kinds, in eight chunks of 500 lines."""
    words = ["the cat", "a dog", "", "now", "house \t", "나는", "\x07", "sees it."]
    rows = [json.dumps({"id": n, "text": f"{words[n % 8]} {n % 5 or ''}"}).encode() for n in range(LINES - 1)]
    rows.append(b'{"text": "\xff"}')
    return {f"{name}.jsonl.gz": gzip.compress(b"\n".join(rows[name:] + rows[:name]), 1) for name in range(FILES)}


@pytest.fixture(scope="module")
def undisturbed(translations: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Output on a disk when nothing happens."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "in").mkdir()
    for name, content in texts().items():
        (folder / "in" / name).write_bytes(content)
    job = translations(f"{folder}/in/*.jsonl.gz", str(folder))
    assert job.ended(job.start()) == FILES * LINES
    return bytes(job.output())


@pytest.fixture
def job(translations: Callable[..., Any], s3_folder: str) -> Any:
    for name, content in texts().items():
        storage.write_bytes([content], f"{s3_folder}/in/{name}")
    return translations(f"{s3_folder}/in/*.jsonl.gz", s3_folder)


def files(job: Any) -> list[str]:
    """Return the files at the place of a job, except its input."""
    store, name = storage.store_of(job.place)
    found = [key.removeprefix(f"{name}/") for key in store.find(name)]
    return sorted(key for key in found if not key.startswith("in/"))


LEFT = ["job/done.json", "job/plan.json", "job/profile.json", "out.parquet", "out.parquet.unreadable.jsonl"]


@nightly
def test_a_job_that_is_killed_again_and_again_ends_as_one_on_a_disk(job: Any, undisturbed: bytes) -> None:
    for chunks in (1, 8, 16):
        process = job.start()
        job.wait_for(chunks, process)
        process.kill()
        assert process.wait(SECONDS) == -signal.SIGKILL
        assert job.output() is None
    before = job.translated()
    assert job.ended(job.start()) == FILES * LINES - 500 * before
    assert job.output() == undisturbed
    assert files(job) == LEFT


@faults
@pytest.mark.cpu(20)
def test_a_job_that_is_killed_at_each_of_its_steps_ends_as_one_on_a_disk(job: Any, undisturbed: bytes) -> None:
    """The kill comes while the text is cut, while it is translated, or while the output is written."""
    folder = JobFolder(f"{job.place}/job")

    def parts() -> Parts:
        begun = folder.begun()
        return folder.parts(begun.order.fingerprint if begun else "not yet")

    job.kill_when(lambda: len(parts().staged()) >= 3)
    assert folder.plan() is None and 3 <= len(parts().staged()) < CHUNKS
    job.kill_when(lambda: job.translated() >= 8)
    job.kill_when(lambda: exists(f"{parts().claims}/merge.json"))
    assert job.output() is None and job.translated() == CHUNKS
    assert job.ended(job.start()) == 0
    assert job.output() == undisturbed
    assert files(job) == LEFT


@faults
@pytest.mark.cpu(20)
def test_three_share_a_job_one_dies_and_one_is_thought_dead(job: Any, undisturbed: bytes) -> None:
    """The claim of the stopped process must expire by itself. The process resumes when all is done."""
    killed, stopped, third = job.start(), job.start(), job.start()
    job.wait_for(3, third)
    stopped.send_signal(signal.SIGSTOP)
    killed.kill()
    killed.wait(SECONDS)
    done = job.ended(third)
    stopped.send_signal(signal.SIGCONT)
    assert done > 0 and done + job.ended(stopped) <= FILES * LINES + 500, "they have not all done everything"
    assert job.output() == undisturbed
    assert files(job) == LEFT


@nightly
def test_processes_of_one_attempt_share_the_chunks(job: Any, undisturbed: bytes) -> None:
    process = job.start(workers=2)
    job.wait_for(3, process)
    children = psutil.Process(process.pid).children()
    next(child for child in children if "nmt_core.execution.child " in " ".join(command_line(child))).kill()
    done = job.ended(process)
    assert FILES * LINES - 500 <= done <= FILES * LINES, "what it had written, and not yet said, is found there"
    assert job.output() == undisturbed


@faults
@pytest.mark.cpu(12)
def test_a_store_that_goes_away_is_named(
    translations: Callable[..., Any], s3: str, free_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://127.0.0.1:{free_port}"
    server = Server("S3", ["-m", "moto.server", "-p", str(free_port)], tmp_path / "log", {})
    server.wait_until(f"{address}/moto-api/", timeout=patient(120))
    store = fsspec.filesystem("s3", endpoint_url=address, use_listings_cache=False)
    store.mkdir("bucket")
    (tmp_path / "in.txt").write_text("now\n" * 50_000)
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    process = translations(str(tmp_path / "in.txt"), s3).start()
    until(lambda: store.glob("bucket/job/*/output/*.parquet") or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    server.stop()
    _, said = process.communicate(timeout=patient(SECONDS))
    assert process.returncode == 1
    assert "a store fails (Could not connect to the endpoint URL: " in said
    places = "s3://bucket/job and s3://bucket/out.parquet"
    assert f"check that {places} can be reached, then run the same command again" in said
    assert "Traceback" not in said
