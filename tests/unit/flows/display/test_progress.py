"""What a user sees of a run besides its stages."""

import io
import logging
from typing import Any

import pytest
from rich.console import Console

from flows.display.progress import StageReporter, shown_on


def test_a_notice_is_shown_at_once_and_a_line_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    shown, nothing = io.StringIO(), None
    with shown_on(Console(file=shown)):
        tracker: Any = nothing
        reporter = StageReporter("train", logging.getLogger("run"), tracker, tracker)
        reporter.log("update 1")
        reporter.notice("Slurm job 7 is PENDING (Resources)")
    assert shown.getvalue() == "Slurm job 7 is PENDING (Resources)\n"
    assert [record.message for record in caplog.records] == ["update 1", "Slurm job 7 is PENDING (Resources)"]
