from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nmt_core.artifacts import Artifact, Store
from nmt_core.config import ParallelCorpus, PipelineConfig
from nmt_core.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages import STAGES

Pair = tuple[str, str]


@pytest.fixture
def write_corpus(tmp_path: Path) -> Callable[[str, Sequence[Pair]], ParallelCorpus]:
    """Write pairs as two text files, and name them as a recipe does."""

    def write(name: str, pairs: Sequence[Pair]) -> ParallelCorpus:
        paths = tmp_path / f"{name}.en", tmp_path / f"{name}.de"
        for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
            path.write_bytes("".join(f"{line}\n" for line in side).encode())
        return ParallelCorpus(name=name, source=str(paths[0]), target=str(paths[1]))

    return write


@pytest.fixture
def recipe() -> Callable[..., PipelineConfig]:
    """A recipe from English to German; sections by name."""

    def make(**sections: Any) -> PipelineConfig:
        return PipelineConfig.model_validate(
            {"name": "test", "languages": {"source": "en", "target": "de"}, **sections},
        )

    return make


@pytest.fixture
def run_until(tmp_path: Path) -> Callable[..., dict[str, Artifact]]:
    """Run the first stages through the stage runner, up to one of them; one store for each `store` name."""

    def run(config: PipelineConfig, last: str, store: str = "store") -> dict[str, Artifact]:
        made: dict[str, Artifact] = {}
        for stage in STAGES.values():
            inputs = {name: made[name] for name in stage.needs}
            job = Job(SilentReporter(), Resources())
            made[stage.name] = run_stage(stage, config, Store(tmp_path / store), inputs, job).artifact
            if stage.name == last:
                break
        return made

    return run
