"""kill -9 in the middle of the stage `clean`: the next run ends with the bytes of an undisturbed one."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.until import patient, until, until_gone

from nmt_core.config import PipelineConfig
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Store, describe_outputs

STAGE_IN_A_PROCESS = """
import sys
from pathlib import Path
from nmt_core.store.artifacts import Store
from nmt_core.config import PipelineConfig
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.execution.pool import LocalWorkers

config, store = PipelineConfig.model_validate_json(sys.argv[1]), Store(Path(sys.argv[2]))
resources = Resources(scratch=sys.argv[3])
job = Job(SilentReporter(), resources)
download = run_stage(STAGES["download"], config, store, {}, job).artifact
with LocalWorkers(2) as workers:
    run_stage(STAGES["clean"], config, store, {"download": download}, Job(SilentReporter(), resources, workers))
"""


@pytest.fixture
def config(tmp_path: Path) -> PipelineConfig:
    """A recipe with twenty shards of text."""
    lines = [f"Number {n % 15_000} is a big number, said number {n % 7}." for n in range(20_000)]
    (tmp_path / "train.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
    translated = [f"Nummer {n % 15_000} ist eine große Nummer, sagte Nummer {n % 7}." for n in range(20_000)]
    (tmp_path / "train.de").write_text("\n".join(translated) + "\n", encoding="utf-8")
    files = {"name": "numbers", "source": str(tmp_path / "train.en"), "target": str(tmp_path / "train.de")}
    languages = {"source": "en", "target": "de"}
    return PipelineConfig.model_validate(
        {"name": "test", "languages": languages, "corpus": {"train": [files]}, "clean": {"shard_pairs": 1_000}}
    )


def started(config: PipelineConfig, store: Path, scratch: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", STAGE_IN_A_PROCESS, config.model_dump_json(), str(store), scratch]
    return subprocess.Popen(command)


@pytest.mark.faults
@pytest.mark.parametrize("beside", [True, False], ids=["beside the result", "elsewhere"])
def test_the_next_run_makes_what_an_undisturbed_one_makes(config: PipelineConfig, tmp_path: Path, beside: bool) -> None:
    scratch, files = ("", "killed/clean/*.partial/.scratch") if beside else (f"file://{tmp_path}/files", "files/*")
    process = started(config, tmp_path / "killed", scratch)

    def is_in_the_middle() -> bool:
        assert process.poll() is None, "the stage ended before it could be killed"
        return bool(list(tmp_path.glob(f"{files}/passed-00005.parquet")))

    until(is_in_the_middle, every=0.005)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    assert process.wait(patient(60)) == -signal.SIGKILL
    assert children
    until_gone(children, "workers live on")
    assert not Store(tmp_path / "killed").newest("clean", 1)

    assert list(tmp_path.glob(f"{files}/passed-*"))

    assert started(config, tmp_path / "killed", scratch).wait(patient(60)) == 0

    again = Store(tmp_path / "killed").newest("clean", 2)
    undisturbed = _made(config, tmp_path / "undisturbed")
    assert len(again) == 1
    assert describe_outputs(again[0].path) == describe_outputs(undisturbed)
    assert not list((tmp_path / "killed" / "clean").glob("*.partial"))
    assert not list(tmp_path.glob(files))


def _made(config: PipelineConfig, store: Path) -> Path:
    job = Job(SilentReporter(), Resources())
    download = run_stage(STAGES["download"], config, Store(store), {}, job).artifact
    return run_stage(STAGES["clean"], config, Store(store), {"download": download}, job).artifact.path
