"""A job has a profile of its text and translations, which kills, workers and chunks do not change."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.execution.pool import LocalWorkers
from nmt_core.jobs import run as run_module
from nmt_core.jobs.chunk import ChunkResult, ChunkTask, translate_chunk

LINES = ["the cat sees a dog.", "", "나는 학생 이다.", "now", "a big house and a small house", "\x00", "TO IT"]


class StoppedError(Exception):
    pass


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES * 8) + "no JSON\n")
    return file


def profile(target: Path) -> bytes:
    return Path(f"{target}.job", "profile.json").read_bytes()


def test_a_profile_counts_all_statuses_and_all_text(job: Any, source: Path, tmp_path: Path) -> None:
    outcome = job.run(source, tmp_path / "out.parquet")
    stored = job.folder(job.order(source, tmp_path / "out.parquet")).profile()
    assert stored and stored.categories["status"] == outcome.done.statuses
    rows = pl.read_parquet(tmp_path / "out.parquet")
    assert stored.lines == rows.filter(~pl.col("status").is_in(["empty", "null_byte", "invalid_json"])).height
    assert sum(stored.histograms["score"].values()) == rows["score"].count()
    assert sum(stored.categories["script"].values()) == stored.lines
    assert stored.categories["script"]["Hangul"] == 8


def test_a_job_that_was_stopped_has_the_same_profile(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.run(source, tmp_path / "undisturbed.jsonl")
    begun: list[int] = []

    def translate_some(task: ChunkTask) -> ChunkResult:
        if len(begun) == 3:
            raise StoppedError
        begun.append(task.number)
        return translate_chunk(task)

    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(run_module, "translate_chunk", translate_some)
        job.run(source, tmp_path / "stopped.jsonl")
    with LocalWorkers(1) as workers:
        replace(job, means=replace(job.means, workers=workers)).run(source, tmp_path / "stopped.jsonl")
    assert profile(tmp_path / "stopped.jsonl") == profile(tmp_path / "undisturbed.jsonl")


def test_a_chunk_of_an_earlier_version_leaves_a_job_without_a_profile(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its translations stay as they are: nothing is translated again for a profile."""

    def without_profile(task: ChunkTask) -> ChunkResult:
        result = translate_chunk(task)
        if task.number == 2:
            file = task.parts.output(2)
            pl.read_parquet(file).write_parquet(file)
        return result

    monkeypatch.setattr(run_module, "translate_chunk", without_profile)
    outcome = job.run(source, tmp_path / "out.jsonl")
    assert outcome.done.lines == 57
    assert job.folder(job.order(source, tmp_path / "out.jsonl")).profile() is None
