"""Training on a real Slurm cluster of two nodes, with the template of the package: `make cluster` runs this."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.facts import raises
from support.ranks import Ranks
from support.slurm import SlurmCluster
from support.trainings import InBackground, Training, Watched
from support.until import patient, until

from flows.launchers.cluster_job import template_of
from flows.settings import Settings
from nmt_core.errors import ConfigError, PreemptedError, StageError

pytestmark = [pytest.mark.cluster, pytest.mark.cpu(120), pytest.mark.timeout(1_800)]

Losses = dict[tuple[str, float], float]
TrainingOf = Callable[..., Training]

LONG = {"max_updates": 1_500, "checkpoint_every": 1_000, "validate_every": 500}
"""A training that is in the middle of its work when something happens to it."""


class InterruptionError(Exception):
    """Error that a test raises in a running stage, as Ctrl-C or a cancelled flow would."""


def interrupt() -> None:
    raise InterruptionError


def losses(points: list[tuple[int, dict[str, float]]]) -> Losses:
    return {(name, step): value[name] for step, value in points for name in value if name.endswith("_loss")}


@pytest.mark.parametrize(("parallel", "processes"), [("ddp", 1), ("fsdp", 1), ("hsdp", 2)])
def test_two_nodes_have_the_losses_of_one_process(
    training_of: TrainingOf, slurm: SlurmCluster, ranks: Ranks, parallel: str, processes: int
) -> None:
    few = {"max_updates": 12, "validate_every": 3, "micro_batch_tokens": 128, "learning_rate_scale": 0.1}
    if parallel == "hsdp":
        few["shard_size"] = 2
    on_two, alone = Watched(), Watched()
    training = training_of("two", parallel=parallel, **few)
    training.on_slurm(on_two, NMT_NODES="2", NMT_PROCESSES=str(processes))
    training_of("one", **few).by(ranks.launcher(), alone)
    assert len(losses(alone.points)) > 4
    assert losses(on_two.points) == pytest.approx(losses(alone.points), rel=1e-5)
    assert [notice.split()[4] for notice in on_two.notices if "RUNNING" in notice] == ["RUNNING"]
    assert "ended: COMPLETED, exit code 0, after" in on_two.notices[-1] and "on 2 nodes" in on_two.notices[-1]


def test_leaving_early_saves_a_checkpoint_on_both_nodes_and_the_next_run_resumes(
    training_of: TrainingOf, slurm: SlurmCluster
) -> None:
    training = training_of(**LONG)
    with pytest.raises(InterruptionError):
        training.on_slurm(Watched(25, interrupt), NMT_NODES="2")
    saved = training.saved_update
    assert 25 <= saved < 1_000
    assert not slurm.jobs()
    again = Watched()
    assert training.on_slurm(again, NMT_NODES="2").report()["updates"] == LONG["max_updates"]
    assert saved < again.points[0][0] <= saved + 50
    assert training.updates() == sorted(set(training.updates()))


def test_a_job_that_is_cancelled_in_slurm_has_saved_a_checkpoint(training_of: TrainingOf, slurm: SlurmCluster) -> None:
    training = training_of(**LONG)
    reporter = Watched(25, lambda: slurm.do("scancel", *slurm.jobs()) and None)
    with raises(PreemptedError, r"after [\d,]+ updates", "the same command resumes"):
        training.on_slurm(reporter, NMT_NODES="2")
    assert 25 <= training.saved_update < 1_000


def test_at_the_time_limit_slurm_requeues_the_job_and_it_resumes_at_that_very_update(
    training_of: TrainingOf, slurm: SlurmCluster
) -> None:
    """The limit is lowered during training. The template requests the signal two minutes before the limit."""
    most = 2 * LONG["max_updates"]  # Slurm looks at its limits once in half a minute
    training, reporter = training_of(**LONG | {"max_updates": most, "checkpoint_every": most}), Watched()
    reporter.update, reporter.act = 25, lambda: slurm.do("scontrol", "update", f"job={slurm.jobs()[0]}", "TimeLimit=1")
    run = InBackground(lambda: training.on_slurm(reporter, NMT_NODES="2"))
    number = run.until(slurm.jobs)[0]
    run.until(lambda: slurm.job(number)["Restarts"] == "1")
    saved = training.saved_update
    assert 25 <= saved < most, "saved for the signal, and not because a checkpoint was due"
    before = len(reporter.points)
    slurm.begin_now(number)
    assert run.result().report()["updates"] == most
    assert saved < reporter.points[before][0] <= saved + 50
    assert training.updates() == sorted(set(training.updates()))


def test_with_a_range_of_nodes_it_loses_one_and_has_it_again_after_a_requeue(
    training_of: TrainingOf, slurm: SlurmCluster
) -> None:
    training, reporter = training_of(**LONG | {"checkpoint_every": 25, "max_updates": 4_000}), Watched()
    run = InBackground(lambda: training.on_slurm(reporter, NMT_NODES="1:2"))
    number = run.until(slurm.jobs)[0]
    run.until(lambda: reporter.points and training.saved_update >= 25)
    assert slurm.job(number)["NodeList"] == "node[0-1]"
    slurm.lose("node1")
    lost_at = reporter.points[-1][0]
    run.until(lambda: reporter.points[-1][0] > lost_at + 50)
    assert slurm.job(number)["NodeList"] == "node0", "it continues on one node"
    slurm.start_node("node1")
    slurm.do("scontrol", "requeue", number)
    slurm.begin_now(number)
    again_at = reporter.points[-1][0]
    run.until(lambda: reporter.points[-1][0] > again_at + 50)
    assert slurm.job(number)["NodeList"] == "node[0-1]"
    slurm.do("scancel", number)
    with pytest.raises(PreemptedError):
        run.result()
    assert training.updates() == sorted(set(training.updates()))


def test_a_job_that_waits_says_why_and_may_be_cancelled_before_it_runs(
    training_of: TrainingOf, slurm: SlurmCluster
) -> None:
    other = slurm.do("sbatch", "--parsable", "--nodes=2", "--exclusive", "--wrap=sleep 600").stdout.strip()
    until(lambda: slurm.job(other)["JobState"] == "RUNNING")
    training, reporter = training_of(max_updates=10), Watched()
    run = InBackground(lambda: training.on_slurm(reporter, NMT_NODES="2"))
    run.until(lambda: any("is PENDING (Resources)" in notice for notice in reporter.notices))
    slurm.do("scancel", *(number for number in slurm.jobs() if number != other))
    with raises(PreemptedError, "cancelled before it ran", "the same command submits it again"):
        run.result()
    run = InBackground(lambda: training.on_slurm(reporter, NMT_NODES="2"))
    run.until(lambda: len(slurm.jobs()) == 2)
    slurm.do("scancel", other)
    assert run.result().report()["updates"] == 10


def test_a_job_that_full_disks_hold_says_how_to_release_it(training_of: TrainingOf, slurm: SlurmCluster) -> None:
    training, reporter = training_of(max_updates=10), Watched()
    with slurm.with_full_spools():
        run = InBackground(lambda: training.on_slurm(reporter, NMT_NODES="2"))
        held = run.until(lambda: next((notice for notice in reporter.notices if "requeued held" in notice), ""))
        assert "SlurmdSpoolDir" in slurm.do("sinfo", "--list-reasons").stdout
    (number,) = slurm.jobs()
    assert f"`scontrol release {number}`" in held and "`sinfo --list-reasons`" in held
    slurm.do("scontrol", "release", number)
    slurm.begin_now(number)
    assert run.result().report()["updates"] == 10


def test_two_jobs_and_another_users_job_run_side_by_side(training_of: TrainingOf, slurm: SlurmCluster) -> None:
    trainings = [training_of(f"store{i}", max_updates=100, seed=i) for i in (1, 2)]
    reporters = [Watched(), Watched()]
    runs = [
        InBackground(lambda training=training, reporter=reporter: training.on_slurm(reporter, NMT_NODES="2"))
        for training, reporter in zip(trainings, reporters, strict=True)
    ]
    first = runs[0].until(slurm.jobs)[0]
    name = slurm.job(first)["JobName"]
    slurm.do("sbatch", f"--job-name={name}", "--output=/dev/null", "--wrap=sleep 600", user="nobody")
    for run in runs:
        assert run.result().report()["updates"] == 100
    assert len(slurm.jobs()) == 1, "the job of another user with the same name is left alone"


def test_the_controller_is_killed_and_comes_back(training_of: TrainingOf, slurm: SlurmCluster) -> None:
    training, reporter = training_of(max_updates=300, checkpoint_every=300, validate_every=300), Watched(25)

    reporter.act = lambda: slurm.kill("slurmctld")
    run = InBackground(lambda: training.on_slurm(reporter, NMT_NODES="2"))
    run.until(lambda: any("the Slurm controller does not answer" in notice for notice in reporter.notices))
    slurm.start_controller()
    assert run.result().report()["updates"] == 300
    assert "the Slurm controller answers again" in reporter.notices


def test_nodes_without_a_gpu_are_an_error_that_names_the_setting(training_of: TrainingOf, slurm: SlurmCluster) -> None:
    with raises(StageError, "no GPU|finds none", "NMT_PROCESSES", "node"):
        training_of(max_updates=10).on_slurm(NMT_NODES="2", NMT_PROCESSES="")


def test_what_slurm_refuses_is_an_error_with_its_words(
    training_of: TrainingOf, slurm: SlurmCluster, tmp_path: Path
) -> None:
    packaged = template_of(Settings.load({"NMT_LAUNCHER": "slurm"})).read_text()
    own = tmp_path / "own.sbatch"
    own.write_text(packaged.replace("##SBATCH --partition=PARTITION", "#SBATCH --partition=nowhere"))
    with raises(ConfigError, "invalid partition", "NMT_LAUNCH_TEMPLATE"):
        training_of(max_updates=10).on_slurm(NMT_LAUNCH_TEMPLATE=str(own))


def test_ctrl_c_of_the_command_and_the_cost_of_the_run(slurm: SlurmCluster, tmp_path: Path) -> None:
    changes = {
        "corpus.toy.pairs": 1_000,
        "corpus.toy.held_out": 20,
        "tokenizer.vocab_size": 600,
        "model.d_model": 16,
        "model.d_ff": 32,
        "model.num_heads": 2,
        "train.max_updates": 300,
        "train.dev_sentences": 0,
        "train.max_tokens": 512,
        "train.micro_batch_tokens": 256,
        "train.checkpoint_every": 300,
    }
    settings = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    command = [
        sys.executable,
        "-c",
        "from flows.cli.app import main; main()",
        "run",
        "quickstart",
        "--until",
        "train",
        "--json",
        *settings,
    ]
    home = {"NMT_HOME": str(tmp_path / "home"), "NMT_LAUNCHER": "slurm", "NMT_NODES": "2", "NMT_PROCESSES": "1"}

    def start() -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env={**slurm.environment, **home}, stdout=pipe, stderr=pipe, text=True)

    def trains() -> bool:
        assert process.poll() is None, process.communicate()
        return any("train_loss" in curve.read_text() for curve in tmp_path.glob("home/artifacts/train/*/metrics.jsonl"))

    process = start()
    until(trains, every=0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=patient(180))
    assert process.returncode == 130, said
    assert not slurm.jobs()
    saved = [int(file.parent.name) for file in tmp_path.glob("home/artifacts/train/*.partial/checkpoints/*/.metadata")]
    assert 0 < max(saved) < 300
    process = start()
    out, said = process.communicate(timeout=patient(300))
    assert process.returncode == 0, said
    assert "is RUNNING" in said and "ended: COMPLETED" in said
    summary: dict[str, Any] = json.loads(out.splitlines()[-1])
    (row,) = [row for row in summary["stages"] if row["name"] == "train"]
    assert row["cost"]["cpu_seconds"] > 0
    assert row["cost"]["node_seconds"] > row["cost"]["cpu_seconds"] / 2 > 0, "two nodes, as Slurm accounts for them"
