"""Training that is killed, wholly or in part, ends with the curve and the weights of an undisturbed one.

One training is disturbed in several ways, one after the other. `make nightly` has a training for each way.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.keeper import mark
from support.until import patient, until, until_gone

from nmt_core.execution.torchrun import CONFIG, TRAINING_ENVIRONMENT, Rendezvous, torchrun_command
from nmt_core.train.launch import METRICS
from nmt_core.train.status import read_status

pytestmark = pytest.mark.timeout(900)
faults, nightly = pytest.mark.faults, pytest.mark.nightly
Curve = Callable[[Path], list[dict[str, float]]]
Maker = Callable[..., Any]

UPDATES, EVERY = 100, 26  # a point with the clock in it comes with every 25th update, so before every checkpoint
RANKS = 2
TRAIN = {"max_updates": UPDATES, "checkpoint_every": EVERY, "micro_batch_tokens": 128}
# What differs between numbers of processes is rounding; at the usual rate so narrow a model makes it grow.
STEADY = TRAIN | {"learning_rate_scale": 0.1, "parallel": "fsdp"}
NO_DROPOUT = {"dropout": 0.0}  # each process draws its own
SEED = os.environ.get("NMT_FAULTS_SEED") or f"{random.SystemRandom().randrange(1_000_000)}"
"""Seed of the moments at which something is killed. It differs in each run. Set it to repeat an earlier run."""


def draw(what: str, least: int, most: int) -> int:
    """Return a number that its name and the seed decide. The output of a failed test contains both."""
    number = random.Random(f"{SEED} {what}").randint(least, most)
    print(f"NMT_FAULTS_SEED={SEED}: {what} at {number}")
    return number


def weights(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (folder / "weights").iterdir()}


def losses(points: list[dict[str, float]]) -> dict[tuple[str, float], float]:
    return {(name, point["update"]): point[name] for point in points for name in point if name.endswith("_loss")}


@pytest.fixture(scope="module")
def undisturbed(training: Maker) -> Any:
    job = training(TRAIN, {})
    job.run(RANKS)
    return job


@pytest.fixture(scope="module")
def alone(training: Maker) -> Path:
    artifact: Path = training(STEADY, NO_DROPOUT).run(processes=1)
    return artifact


def kill_a_rank(job: Any) -> None:
    """Kill one rank. The other one cannot continue without it."""
    ranks = job.ranks()
    ranks[draw("rank", 0, RANKS - 1)].kill()
    until_gone(ranks)


def kill_the_agent(job: Any) -> None:
    job.agents()[0].kill()


def kill_the_stage_and_the_agent(job: Any) -> None:
    """The processes that train have lost both parents."""
    job.agents()[0].kill()  # first: it would hear of the stage's death, and tell them
    job.stage.kill()


def kill_everything(job: Any) -> None:
    job.kill_all()


def preempt(job: Any) -> None:
    """SIGTERM to all its processes, as a scheduler sends it."""
    for process in [*job.agents(), *job.ranks()]:
        process.terminate()
    assert job.wait() == 75, job.log
    stopped_at = job.newest_complete()
    assert stopped_at % EVERY, "a checkpoint of its own"
    assert f"PreemptedError: train: stopped from outside after {stopped_at} updates" in job.log
    assert job.points[-1]["update"] == stopped_at, "nothing is done that is not saved"


def disturb(job: Any, disturbance: Callable[[Any], None], least: int, most: int) -> bytes:
    """Disturb a training after some update, and return the curves that it must not compute again.

    It resumes from its last checkpoint: by itself if it has lost a rank, otherwise when the same command is repeated.
    """
    job.wait_for_update(draw(disturbance.__name__, least, most))
    job.wait_for(lambda: len(job.ranks()) == RANKS)
    disturbance(job)
    kept: bytes = job.kept()
    assert kept.count(b"\n") >= EVERY
    if disturbance is not kill_a_rank:
        job.wait()
        job.start(RANKS)
    return kept


def assert_ends_as(undisturbed: Any, job: Any, *kept: bytes) -> None:
    """Nothing that was saved was computed twice, and the result is the same as without a disturbance."""
    assert job.wait() == 0, job.log
    curves = (job.made / METRICS).read_bytes()
    assert all(map(curves.startswith, kept)), "it did not resume from a checkpoint"
    assert job.points == undisturbed.points
    assert weights(job.made) == weights(undisturbed.made), "what is averaged must not depend on when it was stopped"
    assert not job.processes()


@faults
@pytest.mark.cpu(80)
def test_it_ends_as_if_it_had_not_been_disturbed(training: Maker, undisturbed: Any) -> None:
    """The training is disturbed once after each checkpoint.

    The last time is so late that only the final checkpoint follows.
    """
    job = training(TRAIN, {})
    job.start(RANKS)
    kept = [
        disturb(job, how, number * EVERY + 5, number * EVERY + 13)
        for number, how in enumerate((kill_a_rank, kill_the_stage_and_the_agent, preempt), 1)
    ]
    assert_ends_as(undisturbed, job, *kept)


@nightly
@pytest.mark.parametrize(
    "disturbance", [kill_a_rank, kill_the_agent, kill_the_stage_and_the_agent, kill_everything, preempt]
)
def test_it_ends_as_if_nothing_had_happened_at_any_moment(
    disturbance: Callable[[Any], None], training: Maker, undisturbed: Any
) -> None:
    job = training(TRAIN, {})
    job.start(RANKS)
    kept = disturb(job, disturbance, EVERY + 5, UPDATES - 10)
    assert_ends_as(undisturbed, job, kept)


@nightly
def test_who_gets_further_between_is_started_again_however_often(training: Maker, undisturbed: Any) -> None:
    """There are five deaths, with a checkpoint between any two, as in a week on many machines."""
    job = training(TRAIN | {"checkpoint_every": 5}, {})
    job.start(RANKS)
    for update in range(8, 68, 12):
        job.wait_for_update(update)
        job.wait_for(lambda least=update - 8: job.newest_complete() >= least)
        (first, *_) = job.ranks()
        first.kill()
        first.wait()
    assert job.wait() == 0, job.log
    assert job.points == undisturbed.points


@faults
@pytest.mark.cpu(30)
def test_who_has_lost_its_keepers_leaves_to_its_heirs_and_who_gets_no_further_is_given_up(training: Maker) -> None:
    """Without a lock, two trainings in one folder would overwrite each other's checkpoints."""
    job = training(TRAIN | {"max_updates": 100_000, "checkpoint_every": 100_000}, {})

    def has_trained(lives: int) -> bool:
        return bool(job.log.count("update 3 of 100,000: ") == lives)

    job.start(processes=1)
    job.wait_for(partial(has_trained, 1))
    orphans = job.ranks()
    kill_the_stage_and_the_agent(job)
    job.wait()
    job.start(processes=1)
    job.wait_for(lambda: set(job.ranks()) - set(orphans))
    until_gone(orphans)

    for life in range(2, 6):
        job.wait_for(partial(has_trained, life))
        (rank,) = job.ranks()
        rank.kill()
    assert job.wait() == 1
    assert "StageError: train: processes have died 4 times since the checkpoint of update 0: look for" in job.log
    assert not job.processes()


@nightly
def test_another_number_of_processes_resumes_with_the_same_losses(training: Maker, alone: Path, curve: Curve) -> None:
    job = training(STEADY, NO_DROPOUT)
    job.start(processes=2)
    job.wait_for_update(draw("resharded", EVERY + 5, UPDATES - 10))
    job.kill_all()
    done_before = job.kept()
    artifact = job.run(processes=1)
    assert (artifact / METRICS).read_bytes().startswith(done_before)
    expected, found = losses(curve(alone)), losses(curve(artifact))
    assert len(expected) == 2 * UPDATES + UPDATES // 25  # dev loss, best dev loss; training loss
    assert found == pytest.approx(expected, rel=1e-6)


@faults
@pytest.mark.cpu(40)
def test_when_one_of_two_nodes_is_gone_for_good_the_other_continues(
    training: Maker, alone: Path, curve: Curve, free_port: int
) -> None:
    """Two `torchrun` agents run on the loopback. The first one keeps the rendezvous and stays."""
    job = training(STEADY, NO_DROPOUT)
    settings = job.config
    sections = {"train": settings.train.model_dump(), "model": settings.model.model_dump()}
    (job.folder / CONFIG).write_text(json.dumps(sections | {"data": str(job.inputs["encode"].path)}))
    rendezvous = Rendezvous("1:2", "1", f"127.0.0.1:{free_port}", job_id="test", local_address="127.0.0.1")
    command = torchrun_command(job.folder, rendezvous, sys.executable)
    environment = TRAINING_ENVIRONMENT | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PATH": "/usr/bin:/bin"}
    environment |= mark()
    with (job.folder / "log").open("wb") as log:
        stays = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        until(lambda: _listens(free_port) or stays.poll() is not None)
        assert stays.poll() is None, job.log
        goes = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    metrics = job.folder / METRICS
    last = draw("node", EVERY + 5, UPDATES - 20)

    def is_far_enough() -> bool:
        assert stays.poll() is None, job.log
        return metrics.exists() and metrics.read_bytes().count(b'"dev_loss"') >= last

    until(is_far_enough, every=0.005)
    (rank,) = [process for process in job.ranks() if process.ppid() == goes.pid]
    for process in (goes, rank):
        process.kill()
    goes.wait()
    before = metrics.read_bytes().splitlines()[:EVERY]
    assert stays.wait(patient(150)) == 0, job.log
    status = read_status(job.folder)
    assert status
    assert (status.state, status.update) == ("finished", UPDATES)
    assert metrics.read_bytes().splitlines()[:EVERY] == before, "it resumes from the checkpoint"
    assert losses(curve(job.folder)) == pytest.approx(losses(curve(alone)), rel=1e-5)


def _listens(port: int) -> bool:
    """The port is not connected to, because a store takes every connection for a peer."""
    text = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in text.splitlines()[1:])
