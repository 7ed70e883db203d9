"""Jobs of a tiny real model, on files in a folder of the test."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from nmt_core.bundle.folder import sha256_of
from nmt_core.config import SearchConfig
from nmt_core.jobs.folder import JobFolder
from nmt_core.jobs.inputs import absolute, find_inputs
from nmt_core.jobs.order import JobRequest, ModelVersion, Order
from nmt_core.jobs.run import Means, Outcome, run_job

QUICK = SearchConfig(beam_size=1, max_length_offset=4, max_source_tokens=16, batch_tokens=256)


@dataclass(frozen=True)
class TinyJob:
    """Job that does what `nmt translate` does, without MLflow."""

    bundle: Path
    means: Means
    search: SearchConfig = QUICK
    notes: list[tuple[float, float, str]] = field(default_factory=list)

    def order(self, source: str | Path, target: str | Path, **changes: Any) -> Order:
        """The order of a job whose chunks have 8 rows."""
        found = find_inputs(str(source), (absolute(str(target)), f"{absolute(str(target))}.job"))
        model = ModelVersion(name="tiny", version="1", sha256=sha256_of(self.bundle / "config.json"))
        values: dict[str, Any] = {"model": model, "search": self.search, "chunk_lines": 8} | changes
        return Order(inputs=found.files, into_folder=not found.is_one, target=absolute(str(target)), **values)

    def folder(self, order: Order) -> JobFolder:
        """Return the folder in which the job of an order is kept."""
        return JobFolder(f"{order.target}.job")

    def run(self, source: str | Path, target: str | Path, **changes: Any) -> Outcome:
        """Do the job, or the rest of it."""
        order = self.order(source, target, **changes)
        means = replace(self.means, progress=lambda *note: self.notes.append(note))
        return run_job(JobRequest("tiny"), order, self.folder(order), means)


@pytest.fixture
def job(tiny_bundle: Path) -> TinyJob:
    return TinyJob(tiny_bundle, Means(str(tiny_bundle), claim_seconds=2))
