"""Files between the steps of a stage in a store that is not a folder, written and read by two processes.

One store is an S3 server on this machine. The other is a store that fsspec finds in an installed package, like s3://
and gs://. It keeps its files in a folder that represents the bucket, and records which process wrote each file.
"""

import os
from pathlib import Path

import pytest
from fsspec.registry import known_implementations

from flows.settings import Settings
from flows.workers.clusters import workers_for
from nmt_core.config import PipelineConfig
from nmt_core.stages.stage import Job, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store import storage
from nmt_core.store.artifacts import Artifact, describe_outputs

pytestmark = [pytest.mark.faults, pytest.mark.cpu(20)]

STORE = """
import os
from fsspec.implementations.local import LocalFileSystem

class Shelf(LocalFileSystem):
    protocol = "shelf"

    @classmethod
    def _strip_protocol(cls, path):
        return LocalFileSystem._strip_protocol(path.removeprefix("shelf://"))

    def unstrip_protocol(self, name):
        return "shelf://" + self._strip_protocol(name)

    def pipe_file(self, path, value, **options):
        with open("{log}", "a") as log:
            log.write(str(os.getpid()) + "\\n")
        super().pipe_file(path, value, **options)
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the store for this process and its children. Return the file that records which process wrote."""
    package = tmp_path / "package"
    (package / "shelf-1.0.dist-info").mkdir(parents=True)
    (package / "shelf-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
    (package / "shelf-1.0.dist-info" / "entry_points.txt").write_text("[fsspec.specs]\nshelf = shelf_store:Shelf\n")
    (package / "shelf_store.py").write_text(STORE.replace("{log}", str(tmp_path / "writers")))
    monkeypatch.syspath_prepend(package)
    known = {"class": "shelf_store.Shelf", "err": ""}  # this process has asked for such packages long ago
    monkeypatch.setitem(known_implementations, "shelf", known)
    return tmp_path / "writers"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> PipelineConfig:
    """A recipe with six shards of text, with copies and near-copies."""
    folder = tmp_path_factory.mktemp("text")
    numbers = [n % 4_000 for n in range(6_000)]
    sides = {"en": "Number {} is a big number, said somebody{}.", "de": "Nummer {} ist eine große Nummer, sagte wer{}."}
    for language, sentence in sides.items():
        lines = [sentence.format(n, " else" if place % 3 == 0 else "") for place, n in enumerate(numbers)]
        (folder / f"train.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = {"name": "numbers", "source": str(folder / "train.en"), "target": str(folder / "train.de")}
    return PipelineConfig.model_validate(
        {
            "name": "test",
            "languages": {"source": "en", "target": "de"},
            "corpus": {"train": [files]},
            "clean": {"shard_pairs": 1_000, "near_duplicates": 0.8},
        }
    )


def cleaned(config: PipelineConfig, home: Path, **environment: str) -> Artifact:
    settings = Settings.load({"NMT_HOME": str(home)} | environment)
    with workers_for(settings) as workers:
        job = Job(SilentReporter(), settings.resources, workers)
        download = run_stage(STAGES["download"], config, settings.store, {}, job).artifact
        return run_stage(STAGES["clean"], config, settings.store, {"download": download}, job).artifact


@pytest.fixture(scope="module")
def alone(config: PipelineConfig, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Artifact that one process makes, with its files beside the result."""
    made = cleaned(config, tmp_path_factory.mktemp("one"), NMT_THREADS="1")
    assert made.report()["dropped"].keys() == {"duplicate", "near_duplicate"}
    return made


def test_two_processes_and_a_store_make_what_one_process_makes(
    config: PipelineConfig, alone: Artifact, log: Path, tmp_path: Path
) -> None:
    address = f"shelf://{tmp_path}/bucket"
    assert storage.local_path(address) is None
    both = cleaned(config, tmp_path / "two", NMT_THREADS="2", NMT_SCRATCH=address)

    assert both.report() == alone.report()
    assert describe_outputs(both.path) == describe_outputs(alone.path)
    assert len(set(log.read_text().split()) - {str(os.getpid())}) == 2
    assert not list((tmp_path / "bucket").iterdir())


def test_two_processes_and_s3_make_what_one_process_makes(
    config: PipelineConfig, alone: Artifact, s3_folder: str, tmp_path: Path
) -> None:
    both = cleaned(config, tmp_path / "two", NMT_THREADS="2", NMT_SCRATCH=s3_folder)

    assert both.report() == alone.report()
    assert describe_outputs(both.path) == describe_outputs(alone.path)
    store, name = storage.store_of(s3_folder)
    assert store.find(name) == []
    assert store.ls("") == [name.partition("/")[0]]
