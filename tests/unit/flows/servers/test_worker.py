"""The runs of a worker get the signal before the worker. At SIGTERM, this worker kills them as Prefect's does."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from support.until import patient, until, until_gone

RUN = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def hear(*_):
    (folder / "told").touch()
    if sys.argv[2] == "good":
        while not (folder / "go").exists():
            time.sleep(0.02)
        (folder / "checkpoint").touch()
        sys.exit(1)
signal.signal(signal.SIGTERM, hear)
(folder / "runs").touch()
while True:
    time.sleep(1)
"""
WORKER = """
import pathlib, signal, subprocess, sys
folder = pathlib.Path(sys.argv[2])
run = subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
def end(*_):
    run.kill()
    (folder / "ended").write_text("saved" if (folder / "checkpoint").exists() else "not saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
run.wait()
signal.pause()
"""
SUPERVISOR = """
import pathlib, sys
from flows.servers.worker import supervise
clock = pathlib.Path(sys.argv[2])
sys.exit(supervise([sys.executable, *sys.argv[3:]], float(sys.argv[1]), lambda: float(clock.read_text())))
"""


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """File that tells the supervisor the time."""
    file = tmp_path / "clock"
    file.write_text("0")
    return file


def start(clock: Path, hearing: str = "good") -> tuple[subprocess.Popen[bytes], list[psutil.Process]]:
    """Supervisor with a grace period of 30 seconds, with its worker and run, as soon as the run exists."""
    arguments = ["30", str(clock), "-c", WORKER, RUN, str(clock.parent), hearing]
    process = subprocess.Popen([sys.executable, "-c", SUPERVISOR, *arguments])
    until((clock.parent / "runs").exists)
    return process, psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_runs_end_first_and_have_time_to_save(clock: Path, number: int) -> None:
    process, family = start(clock)
    process.send_signal(number)
    until((clock.parent / "told").exists)
    time.sleep(0.5)  # in which a supervisor that does not wait would end the worker
    (clock.parent / "go").touch()
    assert process.wait(patient(60)) == 0
    assert (clock.parent / "ended").read_text() == "saved", "the worker was told too, after its run"
    until_gone(family)


def test_a_run_that_does_not_hear_is_not_waited_for_for_ever(clock: Path) -> None:
    process, family = start(clock, hearing="deaf")
    process.terminate()
    until((clock.parent / "told").exists)
    later = clock.with_name("later")
    later.write_text("29")
    later.rename(clock)
    time.sleep(0.5)  # in which a supervisor that has less patience would end the worker
    assert not (clock.parent / "ended").exists()
    later.write_text("31")
    later.rename(clock)
    assert process.wait(patient(60)) == 0
    assert (clock.parent / "ended").read_text() == "not saved"
    until_gone(family)


def test_a_worker_that_is_killed_leaves_its_runs_alone(clock: Path) -> None:
    process, (worker, run) = start(clock)
    process.kill()
    process.wait()
    until_gone([worker], "the worker is still there")
    assert run.is_running() and run.status() != psutil.STATUS_ZOMBIE
    run.kill()


def test_the_code_of_a_worker_that_ends_by_itself_is_ours(clock: Path) -> None:
    command = [sys.executable, "-c", SUPERVISOR, "1", str(clock), "-c", "raise SystemExit(3)"]
    assert subprocess.run(command).returncode == 3
