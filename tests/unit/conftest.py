"""Fixtures that unit tests share: workers, the first stages of a recipe, and bundles for many pairs of languages."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sentencepiece import sentencepiece_model_pb2

from nmt_core.bundle.folder import sha256_of
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


@pytest.fixture(scope="session")
def into_many() -> Callable[[Path, Path, str, Sequence[str]], Path]:
    """Copy a bundle into a folder as one for many pairs of languages, with the token on one of the sides."""

    def make(bundle: Path, folder: Path, tag_side: str, pairs: Sequence[str]) -> Path:
        # The last pieces of the vocabulary become language tokens.
        copy = Path(shutil.copytree(bundle, folder))
        model = sentencepiece_model_pb2.ModelProto.FromString((copy / "spm.model").read_bytes())
        for piece, language in zip(reversed(model.pieces), ("ko", "en", "de"), strict=False):
            piece.piece, piece.type = f"<2{language}>", piece.CONTROL
        (copy / "spm.model").write_bytes(model.SerializeToString())
        described = json.loads((copy / "config.json").read_text())
        described["sha256"]["spm.model"] = sha256_of(copy / "spm.model")
        described["languages"] = {"source": "en", "target": "ko", "pairs": list(pairs), "tag_side": tag_side}
        (copy / "config.json").write_text(json.dumps(described))
        return copy

    return make
