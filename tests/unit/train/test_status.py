"""The outcome of a training job, as restarted processes read it."""

from pathlib import Path

import pytest

from nmt_core.train.status import Status, read_status, write_status


@pytest.mark.parametrize(
    ("status", "processes", "holds"),
    [
        (Status("stopped", 7, processes=1), 2, False),
        (Status("stopped", 7, processes=2), 2, True),
        (Status("stopped", 7, processes=2), 1, True),
        (Status("stopped", 7, budget="1 hours", processes=1), 2, True),
        (Status("finished", 7, processes=1), 2, True),
        (Status("failed", error="no"), 2, True),
        (Status("stopped", 7), 2, True),
    ],
)
def test_a_job_that_stopped_for_a_node_to_join_begins_again(
    status: Status, processes: int, holds: bool, tmp_path: Path
) -> None:
    write_status(tmp_path, status)
    read = read_status(tmp_path)
    assert read == status
    assert read.holds_for(processes) == holds
