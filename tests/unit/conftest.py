"""Fixtures that unit tests share: workers, which start once."""

from collections.abc import Iterator

import pytest

from nmt_core.execution.pool import LocalWorkers


@pytest.fixture(scope="session")
def three_workers() -> Iterator[LocalWorkers]:
    """Child processes that have started, without the environment and the folder of a test."""
    with LocalWorkers(3) as workers:
        list(workers.map(abs, range(12)))
        yield workers
