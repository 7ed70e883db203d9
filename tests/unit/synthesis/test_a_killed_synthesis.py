"""A stage that is killed in the middle of a translation resumes there, and makes the same bytes."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt_core.config import PipelineConfig
from nmt_core.stages.stage import Job, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import REPORT, Artifact, Store
from nmt_core.synthesis import synthesise

DIES = """
import os, signal, sys
from pathlib import Path
from nmt_core.config import PipelineConfig
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Store

class Killing(SilentReporter):
    def progress(self, done, total, note=""):
        if 0 < done < total:
            os.kill(os.getpid(), signal.SIGKILL)

config, store, fingerprint = sys.argv[1:]
split = Store(Path(store)).find("split", fingerprint)
config = PipelineConfig.model_validate_json(Path(config).read_text())
run_stage(STAGES["synthesise"], config, Store(Path(store)), {"split": split}, Job(Killing(), Resources()))
"""


@pytest.fixture
def config(recipe: Callable[..., PipelineConfig], backward_bundle: Path) -> PipelineConfig:
    """A recipe whose monolingual text is in several shards, each of which is a chunk of the job."""
    search = {"method": "sample", "max_length_offset": 4}
    part = {
        "name": "made",
        "text": "target_monolingual",
        "teachers": str(backward_bundle),
        "drop": [],
        "search": search,
    }
    made = recipe([part], mix={"corpora": [{"corpus": "made", "weight": 1.5}]})
    return made.model_copy(update={"clean": made.clean.model_copy(update={"shard_pairs": 5})})


@pytest.mark.cpu(20)
def test_a_killed_stage_resumes_with_the_same_bytes(
    config: PipelineConfig, run_until: Callable[..., Any], job: Job, reporter: Any, tmp_path: Path
) -> None:
    made = run_until(config, "split")
    values = config.model_dump(mode="json") | {"clean": config.clean.model_dump(mode="json", exclude={"shard_pairs"})}
    (tmp_path / "config.json").write_text(json.dumps(values))
    command = [sys.executable, "-c", DIES, str(tmp_path / "config.json"), str(tmp_path / "store")]
    killed = subprocess.run([*command, made["split"].fingerprint], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (partial,) = (tmp_path / "store" / "synthesise").glob("*.partial")
    before = {file: file.stat().st_mtime_ns for file in partial.glob(".work/made/*/job-*/parts-*/output/*.parquet")}
    assert len(before) == 1
    resumed = run_stage(STAGES["synthesise"], config, Store(tmp_path / "store"), made, job).artifact
    assert any("resuming: 5 of 12 done" in line for line in reporter.lines), reporter.lines
    whole = run_stage(STAGES["synthesise"], config, Store(tmp_path / "other"), made, job).artifact
    assert outputs(resumed) == outputs(whole)
    assert not partial.exists()


def outputs(artifact: Artifact) -> dict[str, str]:
    """Return the hash of every file except the report, which contains times."""
    return {name: file.sha256 for name, file in artifact.manifest().outputs.items() if name != REPORT}


def test_translations_that_are_done_are_not_repeated_if_only_the_publication_was_missed(
    config: PipelineConfig, run_until: Callable[..., Any], job: Job, tmp_path: Path
) -> None:
    made, out = run_until(config, "split"), tmp_path / "out"
    out.mkdir()
    first = synthesise.run(config, made, out, job)
    (out / synthesise.WORK).mkdir()  # it was killed before this was removed
    assert synthesise.run(config, made, out, job) == first, "to the last digit of its seconds"
    assert not (out / synthesise.WORK).exists()
