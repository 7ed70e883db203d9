from pathlib import Path

import pytest

from flows.interruption import Stopped
from flows.summary import RunSummary, StageSummary, last_runs, new_run_id, read_summary
from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError

CONFIG = PipelineConfig.model_validate({"name": "small", "corpus": {"toy": {}}})


def test_a_summary_is_read_as_it_was_written(tmp_path: Path) -> None:
    summary = RunSummary.begin(CONFIG, new_run_id("small"))
    summary.stages.append(StageSummary(name="clean", fingerprint="12ab", status="done", seconds=1.5))
    summary.write(tmp_path)
    assert read_summary(tmp_path, summary.run_id) == summary
    assert PipelineConfig.model_validate(summary.config) == CONFIG
    assert [file.name for file in (tmp_path / summary.run_id).iterdir()] == ["summary.json"]


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (None, "finished", ""),
        (StageError("no rows\nleft"), "failed", "no rows left"),
        (ZeroDivisionError(), "failed", "ZeroDivisionError"),
        (Stopped(2), "killed", "stopped by SIGINT"),
    ],
)
def test_the_end_is_noted(error: BaseException | None, status: str, text: str) -> None:
    summary = RunSummary.begin(CONFIG, "run")
    summary.end(error)
    assert (summary.status, summary.error) == (status, text)


def test_the_last_runs_are_the_newest_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    assert last_runs(tmp_path / "nowhere", 3) == []
    for name in ("20260101-a", "20260103-c", "20260102-b"):
        RunSummary.begin(CONFIG, name).write(tmp_path)
    (tmp_path / "20260104-d").mkdir()
    (tmp_path / "20260104-d" / "summary.json").write_text("{")
    assert [run.run_id for run in last_runs(tmp_path, 2)] == ["20260103-c", "20260102-b"]


def test_a_summary_that_cannot_be_written_hides_no_other_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    RunSummary.begin(CONFIG, "run").write(tmp_path / "file")
