"""Corpora in files, and the stages that read them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.config import ParallelCorpus, PipelineConfig
from nmt_core.corpus import clean
from nmt_core.corpus.funnel import CleanReport
from nmt_core.corpus.index import INDEX, CorpusIndex, StoredCorpus, StoredFile
from nmt_core.execution.pool import InProcess, Workers
from nmt_core.stages.stage import Job, Resources, SilentReporter
from nmt_core.store.artifacts import Artifact

Pair = tuple[str, str]

WORDS = [("dog", "Hund"), ("cat", "Katze"), ("horse", "Pferd"), ("bird", "Vogel"), ("mouse", "Maus"), ("cow", "Kuh")]


@pytest.fixture(scope="session")
def sound() -> Sequence[Pair]:
    """Different pairs in English and German, without faults."""
    return [(f"The {a} sees the {b}.", f"Das {x} sieht die {y}.") for a, x in WORDS for b, y in WORDS]


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
    """Make a recipe from English to German, with sections by name."""

    def make(**sections: Any) -> PipelineConfig:
        return PipelineConfig.model_validate(
            {"name": "test", "languages": {"source": "en", "target": "de"}, **sections},
        )

    return make


@pytest.fixture(scope="session")
def download_of() -> Callable[..., Artifact]:
    """Make a download artifact of pairs by role and name, as Parquet files."""

    def make(folder: Path, corpora: Mapping[tuple[str, str], Sequence[Pair]]) -> Artifact:
        stored = []
        for (role, name), pairs in corpora.items():
            path = folder / role / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pl.DataFrame(pairs, schema={"source": pl.String, "target": pl.String}, orient="row").write_parquet(path)
            file = StoredFile(file=f"{role}/{path.name}", sha256="", bytes=0, address=str(path), side="both", member="")
            stored.append(
                StoredCorpus.model_validate(
                    {"role": role, "name": name, "licence": "CC0", "citation": "", "url": "", "files": [file]}
                    | {"source_column": "source", "target_column": "target"}
                )
            )
        index = CorpusIndex.model_validate({"corpora": stored, "on_bad_corpus": "fail", "skipped": {}})
        (folder / INDEX).write_text(index.model_dump_json(), encoding="utf-8")
        return Artifact("download", "0", folder)

    return make


@pytest.fixture(scope="session")
def clean_into() -> Callable[..., CleanReport]:
    """Clean the text of a download artifact into a new folder."""

    def run(
        out: Path,
        config: PipelineConfig,
        download: Artifact,
        workers: Workers | None = None,
        resources: Resources | None = None,
    ) -> CleanReport:
        out.mkdir()
        job = Job(SilentReporter(), resources or Resources(), workers or InProcess())
        return clean.run(config, {"download": download}, out, job)

    return run
