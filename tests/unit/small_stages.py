"""Stage functions that are small enough to understand at a glance. Tests name them, and start this file as a process.

Each call is written into the file that SMALL_STAGES_JOURNAL names, so that tests can count what really ran.
"""

import os
import sys
import time
from pathlib import Path

import polars as pl

from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.stages.stage import Inputs, Job, Resources, SilentReporter, Stage, StageReport, run_stage
from nmt_core.store.artifacts import Store


def write_down(name: str) -> None:
    with Path(os.environ["SMALL_STAGES_JOURNAL"]).open("a") as journal:
        journal.write(f"{name}\n")


def report() -> StageReport:
    return StageReport(items_in=1, items_out=1, unit="numbers")


def first(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> StageReport:
    write_down("first")
    (out / "deep").mkdir()
    (out / "deep" / "number.txt").write_text(f"{config.split.seed}")
    return report()


def second(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> StageReport:
    write_down("second")
    number = int((inputs["first"].path / "deep" / "number.txt").read_text())
    (out / "sum.txt").write_text(f"{number + config.encode.max_length}")
    return report()


def looks_around(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> StageReport:
    """Record whether anything is at the final place while the stage works."""
    (out / "seen.txt").write_text(f"{out.name.endswith('.partial')} {out.with_suffix('').exists()}")
    return report()


def reads_undeclared(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> StageReport:
    (out / "seed.txt").write_text(f"{config.train.seed}")
    return report()


def fails_once(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> StageReport:
    """Fail half-way, and resume from the half if it is still there."""
    half = out / "half.txt"
    write_down("resumed" if half.exists() else "started")
    if not half.exists():
        half.write_text("half")
        raise StageError("not today")
    return report()


def fills_the_disk(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> StageReport:
    (out / "small.txt").write_text("fits")
    (out / "large.txt").symlink_to("/dev/full")
    (out / "large.txt").write_text("does not fit")
    return report()


def fills_the_disk_with_polars(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> StageReport:
    """polars, safetensors and torch raise their own errors, which are not an OSError."""
    (out / "large.parquet").symlink_to("/dev/full")
    pl.DataFrame({"number": range(1_000)}).write_parquet(out / "large.parquet")
    return report()


def waits(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> StageReport:
    """End when the file `go` appears beside the journal."""
    write_down("waits")
    (out / "half.txt").write_text("half")
    while not Path(os.environ["SMALL_STAGES_JOURNAL"]).with_name("go").exists():
        time.sleep(0.01)
    return report()


class Telling(SilentReporter):
    """Make the file `told` beside the journal when the message comes that another process makes the stage."""

    def log(self, message: str) -> None:
        Path(os.environ["SMALL_STAGES_JOURNAL"]).with_name("told").touch()


if __name__ == "__main__":
    waiting = Stage("waiting", 1, ("split",), (), "small_stages:waits", resumable="resumable" in sys.argv)
    outcome = run_stage(
        waiting,
        PipelineConfig.model_validate({"name": "small", "corpus": {"toy": {}}}),
        Store(Path(sys.argv[1])),
        {},
        Job(Telling(), Resources()),
    )
    print("reused" if outcome.reused else "made")
