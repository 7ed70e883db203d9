"""Output of a run besides its stages."""

import io
import logging
from typing import Any, get_args

import pytest
from rich.console import Console

from flows.display.progress import Detail, StageReporter, shown_on

_LINES = {
    "quiet": ["MLflow does not answer"],
    "normal": ["train      ...", "Slurm job 7 is PENDING", "MLflow does not answer", "train      0.1 s"],
    "verbose": ["train      ...", "update 1", "Slurm job 7 is PENDING", "MLflow does not answer", "train      0.1 s"],
}


@pytest.mark.parametrize("detail", get_args(Detail))
def test_a_problem_is_always_shown_and_a_line_of_the_log_on_request(
    detail: Detail, caplog: pytest.LogCaptureFixture
) -> None:
    shown, nothing = io.StringIO(), None
    caplog.set_level(logging.INFO)
    with shown_on(Console(file=shown), detail) as display:
        tracker: Any = nothing
        reporter = StageReporter("train", logging.getLogger("run"), tracker, tracker)
        display.begin("train")
        reporter.log("update 1")
        reporter.notice("Slurm job 7 is PENDING")
        reporter.warn("MLflow does not answer")
        display.end("train", "0.1 s")
    assert shown.getvalue().splitlines() == _LINES[detail]
    logged = ["update 1", "Slurm job 7 is PENDING", "MLflow does not answer"]
    assert [record.message for record in caplog.records] == logged
