"""A worker's runs are told to end before it is. The worker here does at SIGTERM what Prefect's does: it kills them."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

RUN = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def save(*_):
    time.sleep(0.5)
    (folder / "checkpoint").touch()
    sys.exit(1)
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "deaf" else save)
(folder / "runs").touch()
time.sleep(60)
"""
WORKER = """
import pathlib, signal, subprocess, sys
run = subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
def end(*_):
    run.kill()
    (pathlib.Path(sys.argv[2]) / "ended").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
run.wait()
signal.pause()
"""
SUPERVISOR = """
import sys
from flows.worker import supervise
sys.exit(supervise([sys.executable, *sys.argv[2:]], grace=float(sys.argv[1])))
"""


def appears(file: Path) -> None:
    """Return when a file is there."""
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline, file
        time.sleep(0.02)


def start(folder: Path, grace: float, hearing: str = "good") -> tuple[subprocess.Popen[bytes], list[psutil.Process]]:
    """A supervisor, and its worker and run, as soon as the run is there."""
    folder.mkdir(exist_ok=True)
    arguments = [str(grace), "-c", WORKER, RUN, str(folder), hearing]
    process = subprocess.Popen([sys.executable, "-c", SUPERVISOR, *arguments])
    appears(folder / "runs")
    return process, psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_runs_end_first_and_have_time_to_save(tmp_path: Path, number: int) -> None:
    process, family = start(tmp_path, grace=30)
    process.send_signal(number)
    assert process.wait(30) == 0
    assert (tmp_path / "checkpoint").exists()
    assert (tmp_path / "ended").exists(), "the worker was told too, after its run"
    assert psutil.wait_procs(family, timeout=10)[1] == []


def test_a_run_that_does_not_hear_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    process, family = start(tmp_path, grace=1, hearing="deaf")
    began = time.monotonic()
    process.terminate()
    assert process.wait(30) == 0
    assert time.monotonic() - began >= 1
    assert psutil.wait_procs(family, timeout=10)[1] == []


def test_a_worker_that_is_killed_leaves_its_runs_alone(tmp_path: Path) -> None:
    process, (worker, run) = start(tmp_path, grace=1)
    process.kill()
    process.wait()
    assert psutil.wait_procs([worker], timeout=10)[1] == [], "nobody would look after it"
    assert run.is_running() and run.status() != psutil.STATUS_ZOMBIE
    run.kill()


def test_the_code_of_a_worker_that_ends_by_itself_is_ours() -> None:
    command = [sys.executable, "-c", SUPERVISOR, "1", "-c", "raise SystemExit(3)"]
    assert subprocess.run(command).returncode == 3
