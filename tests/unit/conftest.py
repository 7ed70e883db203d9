"""Fixtures that unit tests share: workers, which start once, and the first stages of a recipe."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nmt_core.config import PipelineConfig
from nmt_core.execution.pool import LocalWorkers
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import makers_of_inputs, stages_of
from nmt_core.store.artifacts import Artifact, Store


@pytest.fixture(scope="session")
def three_workers() -> Iterator[LocalWorkers]:
    """Child processes that have started, without the environment and the folder of a test."""
    with LocalWorkers(3) as workers:
        list(workers.map(abs, range(12)))
        yield workers


@pytest.fixture
def run_until(tmp_path: Path) -> Callable[..., dict[str, Artifact]]:
    """Run the first stages through the stage runner, up to one of them. Each `store` name has its own store."""

    def run(config: PipelineConfig, last: str, store: str = "store") -> dict[str, Artifact]:
        made: dict[str, Artifact] = {}
        for stage in stages_of(config):
            inputs = {need: made[maker] for need, maker in makers_of_inputs(stage, config).items()}
            job = Job(SilentReporter(), Resources())
            made[stage.name] = run_stage(stage, config, Store(tmp_path / store), inputs, job).artifact
            if stage.name == last:
                break
        return made

    return run
