"""Summaries of runs are written, read and found."""

from pathlib import Path

import pytest

from flows.cli.interruption import Stopped
from flows.runs.cost import Cost
from flows.runs.summary import RunSummary, StageSummary, find_run, last_runs, new_run_id, read_summary
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError, BudgetError, ConfigError, StageError

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
        (BudgetError("all spent"), "killed", "all spent"),
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


def test_a_run_is_found_by_the_beginning_of_its_id_and_the_newest_without_one(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"run 'latest' in .*no run matches"):
        find_run(tmp_path, "")
    for name in ("20260101-a", "20260103-c", "20260103-c-2"):
        RunSummary.begin(CONFIG, name).write(tmp_path)
    assert find_run(tmp_path, "").run_id == "20260103-c-2"
    assert find_run(tmp_path, "20260101").run_id == "20260101-a"
    assert find_run(tmp_path, "20260103-c").run_id == "20260103-c"
    with pytest.raises(ArtifactError, match="3 runs match: give more of the id"):
        find_run(tmp_path, "2026")
    with pytest.raises(ArtifactError, match="no run matches"):
        find_run(tmp_path, "2025")


def test_the_cost_of_a_run_is_the_sum_of_its_stages(tmp_path: Path) -> None:
    summary = RunSummary.begin(CONFIG, "run")
    for name, seconds in (("clean", 1.5), ("train", 2.5)):
        row = StageSummary(name=name, fingerprint="1", status="done", cost=Cost(seconds=seconds, tokens=5))
        summary.stages.append(row)
    summary.write(tmp_path)
    found = read_summary(tmp_path, "run")
    assert found and found.cost == Cost(seconds=4, tokens=10)


@pytest.mark.parametrize("run_id", ["../../elsewhere", "..", ".hidden", "/etc/x", "a b", "", "a\n", "x" * 256])
def test_an_id_that_was_typed_into_a_form_leads_nowhere_else(run_id: str) -> None:
    with pytest.raises(ConfigError, match=r"^run_id="):
        RunSummary.begin(CONFIG, run_id)
