"""SIGKILL, SIGTERM and a full disk in the middle of a translation: every line arrives.

The output has the bytes of an undisturbed job, whichever process finishes it. Models translate in int8, which CPUs
prefer. Those in S3 translate in fp32.
"""

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from mlflow.tracking import MlflowClient
from prefect import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from support.forked import Zygote, start
from support.until import command_line, patient, until

from flows.settings import Settings
from flows.translate import translate
from flows.translation.job import EXPERIMENT, translate_job
from flows.translation.request import TranslationRequest
from nmt_core.bundle.folder import read_bundle
from nmt_core.config import SearchConfig
from nmt_core.jobs.folder import read_bytes

faults, nightly = pytest.mark.faults, pytest.mark.nightly

LINES = 40_000
SECONDS = 240


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of all kinds, in 80 chunks."""
    file = tmp_path_factory.mktemp("text") / "in.txt"
    words = ["the cat", "a dog", "", "now", "house \t", "나는", "\x07", "sees it."]
    file.write_text("".join(f"{words[n % 8]} {n % 5 or ''}\n" for n in range(LINES)))
    return file


@pytest.fixture
def job(translations: Callable[..., Any], source: Path, int8_bundle: Path, tmp_path: Path) -> Any:
    return translations(str(source), str(tmp_path), int8_bundle)


@pytest.fixture(scope="module")
def undisturbed(
    translations: Callable[..., Any], source: Path, int8_bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> bytes:
    assert "int8" in read_bundle(int8_bundle).precisions
    job = translations(str(source), str(tmp_path_factory.mktemp("undisturbed")), int8_bundle)
    assert job.ended(job.start()) == LINES
    return bytes(job.output())


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGKILL, marks=faults), pytest.param(signal.SIGTERM, marks=nightly)]
)
def test_a_job_that_is_killed_again_and_again_ends_as_if_it_were_not(
    number: signal.Signals, job: Any, undisturbed: bytes
) -> None:
    for chunks in (1, 15, 40):
        process = job.start()
        job.wait_for(chunks, process)
        process.send_signal(number)
        assert process.wait(SECONDS) == -number
        assert job.output() is None
    before = job.translated()
    assert job.ended(job.start()) == LINES - 500 * before
    assert job.output() == undisturbed
    assert sorted(file.name for file in (job.folder / "job").iterdir()) == ["done.json", "plan.json", "profile.json"]


@nightly
def test_a_job_that_is_killed_while_the_text_is_cut_or_the_output_is_written(job: Any, undisturbed: bytes) -> None:
    job.kill_when(lambda: list(job.folder.glob("job/*/input/0000030.parquet")))
    assert not (job.folder / "job" / "plan.json").exists()
    job.kill_when(lambda: list(job.folder.glob("out.parquet.*.partial")))
    assert job.output() is None
    assert job.ended(job.start()) == 0
    assert job.output() == undisturbed
    assert not list(job.folder.glob("*.partial"))


@faults
@pytest.mark.cpu(20)
def test_packed_lines_and_those_that_cannot_be_read_have_the_same_bytes_after_any_death(
    translations: Callable[..., Any], int8_bundle: Path, tmp_path: Path
) -> None:
    """The kill comes while the text is cut, while it is translated, or while the output is written."""
    words = [b"the cat", b"\xff\xfe", b"", b"now \xc3", b"a dog"]
    (tmp_path / "in.txt").write_bytes(b"".join(words[n % 5] + b" %d\n" % (n % 7) for n in range(20_000)))
    jobs = []
    for place in ("alone", "killed"):
        (tmp_path / place).mkdir()
        jobs.append(translations(str(tmp_path / "in.txt"), str(tmp_path / place), int8_bundle, "out.jsonl.gz"))
    alone, killed = jobs
    assert alone.ended(alone.start()) == 20_000
    killed.kill_when(lambda: list(killed.folder.glob("job/*/input/0000020.parquet")))
    assert not (killed.folder / "job" / "plan.json").exists()
    killed.kill_when(lambda: killed.translated() >= 10)
    killed.kill_when(lambda: list(killed.folder.glob("out.jsonl.gz.*.partial")))
    assert killed.output() is None and killed.unreadable() is None
    assert killed.ended(killed.start()) == 0
    assert killed.output() == alone.output()
    assert killed.unreadable() == alone.unreadable()
    assert alone.unreadable().count(b"\n") == 8_000
    assert not list(killed.folder.glob("*.partial"))


def stop_in_a_chunk(job: Any, process: "subprocess.Popen[str]") -> None:
    """Stop a process of a job while it holds the claim of a chunk."""

    def holds_one() -> bool:
        process.send_signal(signal.SIGSTOP)
        claims = job.folder.glob("job/*/claims/[0-9]*.json")
        if any(f'"pid":{process.pid},'.encode() in (read_bytes(str(file)) or b"") for file in claims):
            return True
        process.send_signal(signal.SIGCONT)
        assert process.poll() is None, process.communicate()
        return False

    until(holds_one)


@faults
@pytest.mark.cpu(20)
def test_three_share_a_job_one_dies_and_one_is_thought_dead(job: Any, undisturbed: bytes) -> None:
    """The chunks of the first process are done by the others.

    The second process is stopped for longer than its claim holds. It resumes when all is done, and does no harm.
    """
    share = 3

    def started() -> "subprocess.Popen[str]":
        """Return the number of chunks that another process did, when it has ended."""
        before, process = job.translated(), job.start()
        job.wait_for(before + share, process)
        return process

    stop_in_a_chunk(job, killed := started())
    stop_in_a_chunk(job, stopped := started())
    third = started()
    killed.kill()
    assert killed.wait(SECONDS) == -signal.SIGKILL
    assert 0 < job.ended(third) <= LINES - 2 * share * 500, "what others have done is not done again"
    stopped.send_signal(signal.SIGCONT)
    assert job.ended(stopped) < LINES
    assert job.output() == undisturbed
    assert sorted(file.name for file in (job.folder / "job").iterdir()) == ["done.json", "plan.json", "profile.json"]


@faults
@pytest.mark.cpu(10)
def test_a_killed_child_costs_a_chunk(job: Any, undisturbed: bytes) -> None:
    process = job.start(workers=2)
    job.wait_for(10, process)
    victim = next(
        child
        for child in psutil.Process(process.pid).children()
        if "nmt_core.execution.child " in " ".join(command_line(child))
    )
    victim.kill()
    assert LINES - 500 <= job.ended(process) <= LINES, "what it had written, and not yet said, is found there"
    assert job.output() == undisturbed


@pytest.fixture
def quick_bundle(int8_bundle: Path, tmp_path: Path) -> Path:
    """Bundle with search settings that take little time."""
    folder = shutil.copytree(int8_bundle, tmp_path / "bundle")
    (folder / "search.json").write_text(SearchConfig(beam_size=1, max_length_offset=1).model_dump_json())
    return Path(folder)


@faults
@pytest.mark.cpu(20)
def test_the_command_resumes_after_sigterm(
    quick_bundle: Path, source: Path, zygote: Zygote, mlflow_database: Path, tmp_path: Path
) -> None:
    """The second command does only the rest, and its output has the bytes of a command that was not stopped."""
    (tmp_path / "home").mkdir()
    shutil.copyfile(mlflow_database, tmp_path / "home" / "mlflow.db")
    environment = os.environ | {"NMT_HOME": str(tmp_path / "home"), "NMT_THREADS": "1"}
    options = {"cwd": tmp_path, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    def command(output: str, *, anew: bool = False) -> "subprocess.Popen[str]":
        arguments = ["translate", "--model", str(quick_bundle), "--input", str(source), "--output", output]
        return start(zygote, arguments, anew=anew, **options)

    process = command("out.txt", anew=True)

    def has_begun() -> bool:
        assert process.poll() is None, process.communicate()
        return bool(list(tmp_path.glob("out.txt.job/*/output/0000002.parquet")))

    until(has_begun)
    process.terminate()
    _, said = process.communicate(timeout=patient(SECONDS))
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "Translated lines are kept: repeat the command to resume." in said
    for output in ("out.txt", "alone.txt"):
        process = command(output)
        _, said = process.communicate(timeout=patient(SECONDS))
        assert process.returncode == 0, said
    client = MlflowClient(Settings.load(environment).mlflow_tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    runs = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time"])
    assert [run.data.metrics["translated_here"] for run in runs[2:]] == [LINES]
    assert 0 < runs[1].data.metrics["translated_here"] <= LINES - 3 * 4_096
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "alone.txt").read_bytes()
    assert (tmp_path / "out.txt").read_bytes().count(b"\n") == LINES


CHILDREN = {"dask": "multiprocessing[.]spawn", "ray": "^ray::translate_chunk"}
"""Pattern of the command line of a worker, by the kind of its cluster. Ray names a worker after its task."""


@pytest.fixture(params=[pytest.param("dask", marks=faults), pytest.param("ray", marks=nightly)])
def settings(
    request: pytest.FixtureRequest, prefect_api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """Two workers on a cluster of this machine."""
    environment = {"NMT_HOME": str(tmp_path / "home"), "NMT_THREADS": "2", "NMT_WORKERS": request.param}
    environment["MLFLOW_TRACKING_URI"] = f"sqlite:///{tmp_path}/home/mlflow.db"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings.load()


def workers_of(kind: str) -> list[psutil.Process]:
    """Return the children of this process that look like workers."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if re.search(CHILDREN[kind], " ".join(command_line(child)))]


@pytest.mark.cpu(40)
def test_the_flow_loses_nothing_when_a_worker_of_the_cluster_dies(
    settings: Settings, quick_bundle: Path, source: Path, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill_one() -> None:
        until(lambda: list(tmp_path.glob("out.parquet.job/*/output/0000003.parquet")))
        (victim, *_) = until(lambda: workers_of(settings.workers))
        victim.kill()
        killed.append(victim.pid)

    killer = threading.Thread(target=kill_one)
    killer.start()
    report = translate(str(quick_bundle), str(source), str(tmp_path / "out.parquet"))
    killer.join()
    assert killed and report["lines"] == LINES
    alone = TranslationRequest(str(quick_bundle), str(source), str(tmp_path / "alone.parquet"))
    translate_job(alone, replace(settings, workers="local", threads=1), lambda done, total, note: None, pytest.fail)
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()
    with get_client(sync_client=True) as client:
        shown = client.read_artifacts(artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=["report-translate"])))
    assert f"{LINES:,}" in str(shown[0].data)


@pytest.fixture
def on_a_disk(own_mounts: list[str]) -> Callable[[str, Path], tuple[str, ...]]:
    """Make the prefix of a command that sees a small disk of its own at a folder."""
    return lambda size, at: (
        *own_mounts,
        "sh",
        "-c",
        f'mount -t tmpfs -o size={size} tmpfs {at} && exec "$@"',
        "sh",
    )


@faults
def test_a_full_disk_is_named(job: Any, on_a_disk: Callable[[str, Path], tuple[str, ...]]) -> None:
    (job.folder / "job").mkdir()
    process = job.start(within=on_a_disk("400k", job.folder / "job"))
    _, error = process.communicate(timeout=patient(SECONDS))
    assert process.returncode == 1
    assert "is full: free space, then run the same command again (" in error and "chunks are done and kept)" in error
    assert len(error.splitlines()) == 1
