"""Runs that are ended at random moments: nothing is left running, nothing is half made, and the next run goes on."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.until import command_line, patient, until

_SECONDS_UNTIL_THE_END = 60
_SECONDS_UNTIL_CHILDREN_NOTICE = 40


def start(nmt: Any, *arguments: str, anew: bool = False) -> "subprocess.Popen[str]":
    """Start a run. If it hangs, SIGABRT makes it say where."""
    process: subprocess.Popen[str] = nmt.start("run", *arguments, "--json", anew=anew, PYTHONFAULTHANDLER="1")
    return process


def end(process: "subprocess.Popen[str]", number: int) -> tuple[str, str, list[psutil.Process]]:
    """Signal the process group as a terminal does; what was said, and the descendants that outlive it."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number)
    try:
        out, error = process.communicate(timeout=patient(_SECONDS_UNTIL_THE_END))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        pytest.fail(f"still there long after the signal:\n{process.communicate()[1]}")
    if number == signal.SIGKILL:
        psutil.wait_procs(family, timeout=patient(_SECONDS_UNTIL_CHILDREN_NOTICE))
    return out, error, [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def wait_for(home: Path, pattern: str, text: str) -> None:
    """Return as soon as a file of the home holds the text."""
    until(lambda: any(text in file.read_text() for file in home.glob(pattern)), f"no {text} in {pattern}")


def whole(home: Path) -> bool:
    """Whether every folder that looks like an artifact is one."""
    folders = [path for path in home.glob("artifacts/*/*") if path.is_dir() and not path.name.endswith(".partial")]
    return all((folder / "manifest.json").is_file() and (folder / "report.json").is_file() for folder in folders)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_training_is_killed_in_mlflow_and_crashed_in_prefect(
    nmt: Any, recipe: list[str], number: int, code: int
) -> None:
    process = start(nmt, *recipe, "--set", "train.max_updates=100000", anew=number == signal.SIGINT)
    wait_for(nmt.home, "artifacts/train/*.partial/metrics.jsonl", "train_loss")
    out, error, left = end(process, number)
    assert process.returncode == code
    assert left == []
    assert "Traceback" not in error
    assert error.splitlines()[-1] == f"nmt: stopped by {signal.Signals(number).name}"
    summary = json.loads(out.splitlines()[-1])
    assert (summary["status"], summary["stages"][-1]["status"]) == ("killed", "killed")
    states = dict(nmt.select("mlflow.db", "select run_uuid, status from runs"))
    assert states[summary["mlflow_run_id"]] == "KILLED"
    assert "RUNNING" not in states.values()
    assert nmt.in_prefect("select state_name from flow_run") == [("Crashed",)]
    assert whole(nmt.home)


def test_a_preempted_training_is_killed_in_mlflow_and_no_failure_in_prefect(nmt: Any, recipe: list[str]) -> None:
    """SIGTERM to the processes that train, and not to `nmt`, as a cluster does that takes its nodes back."""
    process = start(nmt, *recipe, "--set", "train.max_updates=100000")
    wait_for(nmt.home, "artifacts/train/*.partial/metrics.jsonl", "train_loss")
    for child in psutil.Process(process.pid).children(recursive=True):
        if "nmt_core.train" in command_line(child):
            child.terminate()
    out, error = process.communicate(timeout=patient(_SECONDS_UNTIL_THE_END))
    assert process.returncode == 75, error
    assert "nmt: train: stopped from outside after " in error
    summary = json.loads(out.splitlines()[-1])
    assert (summary["status"], summary["stages"][-1]["status"]) == ("killed", "killed")
    states = dict(nmt.select("mlflow.db", "select run_uuid, status from runs"))
    assert states[summary["mlflow_run_id"]] == "KILLED"
    found = nmt.in_prefect("select state_type, state_name from flow_run")
    assert found == [("CRASHED", "Preempted")]


def test_a_run_that_is_ended_again_and_again_gets_there(nmt: Any, recipe: list[str]) -> None:
    finished: set[str] = set()
    for number, stage in (
        (signal.SIGINT, "clean"),
        (signal.SIGKILL, "encode"),
        (signal.SIGTERM, "train"),
        (signal.SIGKILL, "average"),
    ):
        process = start(nmt, *recipe, anew=True)
        until(lambda: process.poll() is not None or list(nmt.home.glob(f"artifacts/{stage}/*")), every=0.005)  # noqa: B023
        assert process.poll() is None, process.communicate()
        _, error, left = end(process, number)
        assert left == []
        assert "Traceback" not in error
        assert whole(nmt.home)
        now = {str(path.relative_to(nmt.home)) for path in nmt.home.glob("artifacts/*/*") if path.name.isalnum()}
        assert finished <= now, "what was finished stays"
        finished = now
    summary = nmt.run(anew=True)
    assert summary["status"] == "finished"
    reused = {stage["name"] for stage in summary["stages"] if stage["status"] == "reused"}
    assert {name.split("/")[1] for name in finished} <= reused
