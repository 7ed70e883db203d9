"""Training that is killed, wholly or in part, ends with the curve and the weights of an undisturbed one."""

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

from nmt_core.launchers import CONFIG, TRAINING_ENVIRONMENT, Rendezvous, torchrun_command
from nmt_core.train.status import read_status

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Curve = Callable[[Path], list[dict[str, float]]]
Maker = Callable[..., Any]

UPDATES, EVERY = 75, 26  # a point with the clock in it comes with every 25th update, so before every checkpoint
TRAIN = {"max_updates": UPDATES, "checkpoint_every": EVERY, "slice_tokens": 128}
# What differs between numbers of processes is rounding; at the usual rate so narrow a model makes it grow.
STEADY = TRAIN | {"learning_rate_scale": 0.1, "parallel": "fsdp"}
NO_DROPOUT = {"dropout": 0.0}  # each process draws its own
SEED = os.environ.get("NMT_FAULTS_SEED") or f"{random.SystemRandom().randrange(1_000_000)}"
"""Of the moments at which something is killed: others every time, or those of an earlier time, to look into it."""


def draw(what: str, least: int, most: int) -> int:
    """A number that this test's name and the seed decide; both stand in the output of a test that fails."""
    number = random.Random(f"{SEED} {what}").randint(least, most)
    print(f"NMT_FAULTS_SEED={SEED}: {what} at {number}")
    return number


def weights(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (folder / "weights").iterdir()}


def losses(points: list[dict[str, float]]) -> dict[tuple[str, float], float]:
    return {(name, point["update"]): point[name] for point in points for name in point if name.endswith("_loss")}


@pytest.fixture(scope="module")
def undisturbed(training: Maker) -> Path:
    artifact: Path = training(TRAIN, {}).run()
    return artifact


@pytest.fixture(scope="module")
def alone(training: Maker) -> Path:
    artifact: Path = training(STEADY, NO_DROPOUT).run(processes=1)
    return artifact


def kill_a_rank(job: Any) -> None:
    job.ranks()[draw("rank", 0, 1)].kill()


def kill_the_agent(job: Any) -> None:
    job.agents()[0].kill()


def kill_the_stage_and_the_agent(job: Any) -> None:
    """The processes that train have lost both who looked after them."""
    job.agents()[0].kill()  # first: it would hear of the stage's death, and tell them
    job.stage.kill()


def kill_everything(job: Any) -> None:
    job.kill_all()


@pytest.mark.parametrize("kill", [kill_a_rank, kill_the_agent, kill_the_stage_and_the_agent, kill_everything])
def test_it_ends_as_if_it_had_not_been_killed(
    kill: Callable[[Any], None], training: Maker, undisturbed: Path, curve: Curve
) -> None:
    """By itself or with the same command once more; and from the last checkpoint, not from the beginning."""
    job = training(TRAIN, {})
    job.start()
    job.wait_for_update(draw(kill.__name__, EVERY + 5, UPDATES - 10))
    assert len(job.ranks()) == 2
    kill(job)
    done_before = job.kept()
    if job.wait() != 0:
        assert kill is not kill_a_rank, f"it should go on by itself: {job.log}"
        job.run()
    artifact = job.made
    assert (artifact / "metrics.jsonl").read_bytes().startswith(done_before), "it did not go on from the checkpoint"
    assert done_before.count(b"\n") >= EVERY
    assert curve(artifact) == curve(undisturbed)
    assert weights(artifact) == weights(undisturbed)
    assert not job.processes()


def test_who_gets_further_between_is_started_again_however_often(
    training: Maker, undisturbed: Path, curve: Curve
) -> None:
    """Five deaths, and a checkpoint between any two: a week on many machines has as many."""
    job = training(TRAIN | {"checkpoint_every": 5}, {})
    job.start()
    for update in range(8, 68, 12):
        job.wait_for_update(update)
        job.wait_for(partial(_has_saved, job, update - 8))
        (first, *_) = job.ranks()
        first.kill()
        first.wait()
    assert job.wait() == 0, job.log
    assert curve(job.made) == curve(undisturbed)


def test_who_gets_no_further_is_given_up(training: Maker) -> None:
    """The first death comes before it has been seen that there is a checkpoint, that of update 0."""
    job = training(TRAIN | {"max_updates": 100_000, "checkpoint_every": 100_000}, {})
    job.start(processes=1)
    for life in range(1, 6):
        job.wait_for(partial(_has_trained, job, life))
        (rank,) = job.ranks()
        rank.kill()
    assert job.wait() == 1
    assert "StageError: train: processes have died 4 times since the checkpoint of update 0: look for" in job.log
    assert not job.processes()


def _has_saved(job: Any, update: int) -> bool:
    return bool(job.newest_whole() >= update)


def _has_trained(job: Any, times: int) -> bool:
    return bool(job.log.count("update 3 of 100,000: ") == times)


def test_who_has_lost_its_keepers_does_not_train_beside_its_heirs(training: Maker) -> None:
    """Two trainings in one folder would write over each other's checkpoints."""
    job = training(TRAIN | {"max_updates": 100_000, "checkpoint_every": 1_000}, {})
    job.start()
    job.wait_for_update(EVERY)
    orphans = job.ranks()
    kill_the_stage_and_the_agent(job)
    job.wait()
    job.start()
    job.wait_for(lambda: set(job.ranks()) - set(orphans))
    until_gone(orphans)


def test_another_number_of_processes_goes_on_with_the_same_losses(training: Maker, alone: Path, curve: Curve) -> None:
    job = training(STEADY, NO_DROPOUT)
    job.start(processes=2)
    job.wait_for_update(draw("resharded", EVERY + 5, UPDATES - 10))
    job.kill_all()
    done_before = job.kept()
    artifact = job.run(processes=1)
    assert (artifact / "metrics.jsonl").read_bytes().startswith(done_before)
    expected, found = losses(curve(alone)), losses(curve(artifact))
    assert len(expected) == 2 * UPDATES + UPDATES // 25  # dev loss, best dev loss; training loss
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_preempted_job_goes_on_at_that_very_update(training: Maker, undisturbed: Path, curve: Curve) -> None:
    """SIGTERM to all its processes, as a scheduler sends it; late, so that no checkpoint follows but the last."""
    job = training(TRAIN, {})
    job.start()
    job.wait_for_update(draw("preempted", 2 * EVERY + 3, UPDATES - 15))
    for process in [*job.agents(), *job.ranks()]:
        process.terminate()
    assert job.wait() == 75, job.log
    stopped_at = job.newest_whole()
    assert stopped_at % EVERY, "a checkpoint of its own"
    assert f"PreemptedError: train: stopped from outside after {stopped_at} updates" in job.log
    assert curve(job.made)[-1]["update"] == stopped_at, "nothing is done that is not saved"
    done_before = job.kept()
    artifact = job.run()
    assert (artifact / "metrics.jsonl").read_bytes().startswith(done_before)
    assert curve(artifact) == curve(undisturbed)
    assert weights(artifact) == weights(undisturbed), "what is averaged must not depend on when it was stopped"


def test_when_one_of_two_nodes_is_gone_for_good_the_other_goes_on(
    training: Maker, alone: Path, curve: Curve, free_port: int
) -> None:
    """Two `torchrun` agents on the loopback; the first, where the rendezvous is kept, stays."""
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
    metrics = job.folder / "metrics.jsonl"
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
    assert metrics.read_bytes().splitlines()[:EVERY] == before, "it goes on from the checkpoint"
    assert losses(curve(job.folder)) == pytest.approx(losses(curve(alone)), rel=1e-5)


def _listens(port: int) -> bool:
    """Without connecting: a store takes what connects for a peer."""
    text = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in text.splitlines()[1:])
