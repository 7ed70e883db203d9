"""A stage that is started by itself on a machine that has nothing but the address of the shared store."""

import shutil
from pathlib import Path

import pytest

from flows.settings import Settings
from flows.stages import encode
from nmt_core.config import EncodeConfig
from nmt_core.store.artifacts import Artifact


@pytest.fixture
def elsewhere(tiny: dict[str, Artifact], s3_folder: str, tmp_path: Path) -> Settings:
    """Another machine, which has made the tiny pipeline and shared it."""
    settings = Settings.load({"NMT_HOME": str(tmp_path / "elsewhere"), "NMT_STORE": s3_folder})
    for stage in ("download", "clean", "split", "tokenizer"):
        shutil.copytree(tiny[stage].path, settings.store.path(stage, tiny[stage].fingerprint))
        found = settings.store.local(stage, tiny[stage].fingerprint)
        assert found
        settings.store.share(found)
    return settings


def test_it_fetches_what_it_reads_and_nothing_else(
    elsewhere: Settings,
    tiny: dict[str, Artifact],
    tmp_path: Path,
    prefect_api: str,
    s3_folder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_DISABLE_TELEMETRY", "PREFECT_HOME"):
        monkeypatch.setenv(name, "")  # so that what `prepare` sets is taken back
    for name, value in {"NMT_HOME": str(tmp_path / "here"), "NMT_STORE": s3_folder, "NMT_THREADS": "1"}.items():
        monkeypatch.setenv(name, value)
    here = Settings.load()
    tokenizer = tiny["tokenizer"]
    summary = encode(encode=EncodeConfig(max_length=64), input=f"tokenizer/{tokenizer.fingerprint}")
    row = summary.stage("encode")
    assert row and row.status == "done"
    made = elsewhere.store.find("encode", row.fingerprint)
    assert made and made.manifest().inputs == {each: tiny[each].fingerprint for each in ("split", "tokenizer")}
    there = {folder.parent.name for folder in here.store.root.glob("*/*/")}
    assert there == {"tokenizer", "split", "encode"}, "the text of clean and download can be large, and is not read"
    read = {f"{stage}/{tiny[stage].fingerprint}" for stage in ("download", "clean", "split", "tokenizer")}
    assert set(summary.inputs) == read, "so that gc keeps them"
