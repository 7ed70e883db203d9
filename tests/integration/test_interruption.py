"""Runs that are ended at any moment: no process and no incomplete artifact is left, and the next run resumes."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.curves import UNDER_WAY, own_updates
from support.until import command_line, patient, runs, until

Statuses = Callable[[dict[str, Any]], dict[str, str]]

pytestmark = [pytest.mark.slow, pytest.mark.cpu(40)]

_SECONDS_UNTIL_THE_END = 60
_SECONDS_UNTIL_CHILDREN_NOTICE = 40
_LONG = ["--set", "train.max_updates=100000"]


def start(nmt: Any, *arguments: str, anew: bool = False) -> "subprocess.Popen[str]":
    """Start a run. If it hangs, SIGABRT makes it print its stack."""
    process: subprocess.Popen[str] = nmt.start("run", *arguments, "--json", anew=anew, PYTHONFAULTHANDLER="1")
    return process


def end(process: "subprocess.Popen[str]", number: int) -> tuple[str, str, list[psutil.Process]]:
    """Signal the process group as a terminal does. Return the output, and the descendants that are still alive."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number)
    try:
        out, error = process.communicate(timeout=patient(_SECONDS_UNTIL_THE_END))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        pytest.fail(f"still there long after the signal:\n{process.communicate()[1]}")
    if number == signal.SIGKILL:
        psutil.wait_procs(family, timeout=patient(_SECONDS_UNTIL_CHILDREN_NOTICE))
    return out, error, [child for child in family if runs(child)]


def wait_for(
    process: "subprocess.Popen[str]", home: Path, pattern: str, holds: Callable[[Path], object], every: float = 0.01
) -> None:
    """Return as soon as a file or folder exists and satisfies a condition, while the process runs."""

    def is_there() -> bool:
        assert process.poll() is None, process.communicate()
        return any(holds(path) for path in home.glob(pattern) if not path.name.endswith("-journal"))

    until(is_there, f"no {pattern}", every=every)


def half_made(home: Path) -> list[Path]:
    """Return the folders that are not an artifact and that no later run resumes from."""
    folders = [path for path in home.glob("artifacts/*/*") if path.is_dir() and path.name != "fetching"]
    resumable = [path for path in folders if path.parent.name == "train" and path.name.endswith(".partial")]
    return sorted(set(folders) - set(filter(is_whole, folders)) - set(resumable))


def is_whole(folder: Path) -> bool:
    """Return True if a folder is an artifact."""
    files = (folder / "manifest.json", folder / "report.json")
    return not folder.name.endswith(".partial") and all(file.is_file() for file in files)


def last_line(out: str) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(out.splitlines()[-1])
    return summary


def interrupt(process: "subprocess.Popen[str]") -> None:
    """Ctrl-C ends the run with 130 and a message, and none of its processes outlives it."""
    _, error, left = end(process, signal.SIGINT)
    assert process.returncode == 130, error
    assert error.splitlines()[-1] == "nmt: stopped by SIGINT"
    assert "Traceback" not in error
    assert left == []


def test_ctrl_c_while_the_databases_are_made(untouched: Any, recipe: list[str]) -> None:
    process = start(untouched, *recipe, "--until", "download", anew=True)
    # some of its tables are there, and more are to come
    wait_for(process, untouched.home, "mlflow.db*", lambda path: path.stat().st_size >= 200_000)
    interrupt(process)
    assert untouched.run("--until", "download")["status"] == "finished"


def test_ctrl_c_in_an_early_stage(served: Any, recipe: list[str], statuses: Statuses) -> None:
    enough = ["--set", "corpus.toy.pairs=40000", "--until", "clean"]  # for a second of cleaning
    process = start(served, *recipe, *enough)
    wait_for(process, served.home, "artifacts/clean/*.partial", Path.exists)
    interrupt(process)
    assert half_made(served.home) == []
    assert statuses(served.run(*enough)) == {"download": "reused", "clean": "done"}


def test_ctrl_c_while_training_starts(served: Any, recipe: list[str], statuses: Statuses) -> None:
    process = start(served, *recipe, "--until", "train")
    wait_for(process, served.home, "artifacts/train/*.partial/config.json", Path.exists)
    interrupt(process)
    assert half_made(served.home) == []
    became = statuses(served.run("--until", "train"))
    assert became.pop("train") == "done"
    assert set(became.values()) == {"reused"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_training_is_killed_in_mlflow_and_crashed_in_prefect(
    nmt: Any, recipe: list[str], number: int, code: int
) -> None:
    process = start(nmt, *recipe, *_LONG)
    wait_for(process, nmt.home, UNDER_WAY, own_updates, every=0.1)
    out, error, left = end(process, number)
    assert process.returncode == code
    assert left == []
    assert "Traceback" not in error
    assert error.splitlines()[-1] == f"nmt: stopped by {signal.Signals(number).name}"
    assert ended_as(nmt, last_line(out)) == [("CRASHED", "Crashed")]
    assert half_made(nmt.home) == []


def ended_as(nmt: Any, summary: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the state of a killed run in Prefect, once the summary and MLflow call it killed too."""
    assert (summary["status"], summary["stages"][-1]["status"]) == ("killed", "killed")
    states = dict(nmt.select("mlflow.db", "select run_uuid, status from runs"))
    assert states[summary["mlflow_run_id"]] == "KILLED"
    assert "RUNNING" not in states.values()
    query = f"select state_type, state_name from flow_run where id = '{summary['prefect_flow_run_id']}'"
    found: list[tuple[Any, ...]] = nmt.in_prefect(query)
    return found


def test_a_preempted_training_is_killed_in_mlflow_and_no_failure_in_prefect(served: Any, recipe: list[str]) -> None:
    """The processes that train get SIGTERM, and `nmt` does not, as when a cluster takes its nodes back."""
    process = start(served, *recipe, *_LONG)
    wait_for(process, served.home, UNDER_WAY, own_updates, every=0.1)
    for child in psutil.Process(process.pid).children(recursive=True):
        if "nmt_core.train" in command_line(child):
            child.terminate()
    out, error = process.communicate(timeout=patient(_SECONDS_UNTIL_THE_END))
    assert process.returncode == 75, error
    assert "nmt: train: stopped from outside after " in error
    assert ended_as(served, last_line(out)) == [("CRASHED", "Preempted")]


def run_is_ended(nmt: Any, recipe: list[str], ends: Sequence[tuple[int, str]], *, anew: bool) -> set[str]:
    """End a run by each signal when a stage begins. Return the stages that were finished before the last signal."""
    finished: set[str] = set()
    for number, stage in ends:
        process = start(nmt, *recipe, anew=anew)
        wait_for(process, nmt.home, f"artifacts/{stage}/*", Path.exists)
        _, error, left = end(process, number)
        assert left == []
        assert "Traceback" not in error
        whole = {path for path in nmt.home.glob("artifacts/*/*") if path.name.isalnum()}
        assert [path for path in whole if not is_whole(path)] == [], "what looks like an artifact is one"
        now = {str(path.relative_to(nmt.home)) for path in whole}
        assert finished <= now, "what was finished stays"
        finished = now
    return {name.split("/")[1] for name in finished}


def test_a_run_that_is_killed_gets_there(served: Any, recipe: list[str]) -> None:
    finished = run_is_ended(served, recipe, [(signal.SIGKILL, "encode")], anew=False)
    summary = served.run("--until", "encode")
    reused = {stage["name"] for stage in summary["stages"] if stage["status"] == "reused"}
    assert finished <= reused
    assert summary["status"] == "finished"


@pytest.mark.nightly
@pytest.mark.cpu(80)
def test_a_run_that_is_ended_again_and_again_gets_there(untouched: Any, recipe: list[str]) -> None:
    """Each process starts a new interpreter, and its own Prefect server."""
    ends = [
        (signal.SIGINT, "clean"),
        (signal.SIGKILL, "encode"),
        (signal.SIGTERM, "train"),
        (signal.SIGKILL, "average"),
    ]
    finished = run_is_ended(untouched, recipe, ends, anew=True)
    summary = untouched.run(anew=True)
    assert summary["status"] == "finished"
    assert finished <= {stage["name"] for stage in summary["stages"] if stage["status"] == "reused"}
