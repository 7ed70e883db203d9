"""The machinery of the tests works: forks behave as other processes, and a change reaches its tests."""

import functools
import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import costs, forked, homes, reach
from support.until import runs, until


def nmt(zygote: forked.Zygote, home: Path, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return forked.start(zygote, arguments, cwd=home, env=os.environ | {"NMT_HOME": str(home)} | environment, **pipes)


def test_a_fork_ends_and_says_as_a_new_process_does(zygote: forked.Zygote, tmp_path: Path) -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path, "env": dict(os.environ)}
    for arguments, code in ((["--version"], 0), (["plan", "quikstart"], 1), (["polish"], 2)):
        fork, anew = (forked.start(zygote, arguments, anew=new, **pipes) for new in (False, True))
        assert isinstance(fork, forked.Forked)
        assert fork.communicate() == anew.communicate()
        assert fork.returncode == anew.returncode == code


def test_a_fork_has_its_own_folder_environment_and_session(zygote: forked.Zygote, tmp_path: Path) -> None:
    with nmt(zygote, tmp_path, "run", "quickstart", "--until", "download", NMT_PROCESSES="none") as process:
        assert os.getsid(process.pid) == process.pid
        assert Path(f"/proc/{process.pid}/cwd").resolve() == tmp_path
        assert "NMT_PROCESSES='none'" in process.communicate()[1]
    assert process.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_fork_can_be_killed(zygote: forked.Zygote, tmp_path: Path, number: int) -> None:
    process = nmt(zygote, tmp_path, "translate", "--model", str(tmp_path), "--input", str(tmp_path / "pipe"))
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number


def test_a_library_that_is_read_at_the_start_needs_a_new_process(zygote: forked.Zygote, tmp_path: Path) -> None:
    with nmt(zygote, tmp_path, "--version", OMP_NUM_THREADS="7") as process:
        assert not isinstance(process, forked.Forked)
        assert "nmt-pipeline" in process.communicate()[0]


def test_waiting_gives_what_is_found_and_ends(tmp_path: Path) -> None:
    found = iter([0, 0, 7])
    assert until(lambda: next(found)) == 7
    with pytest.raises(AssertionError, match="no such file"):
        until(lambda: False, "no such file", seconds=0.1)


def test_a_copied_home_names_its_own_folder(tmp_path: Path, mlflow_database: Path) -> None:
    home = tmp_path / "home"
    (home / "runs").mkdir(parents=True)
    (home / "runs" / "summary.json").write_text(f'{{"artifact": "{home}/artifacts/a"}}')
    before = homes.snapshot(home)
    homes.copy(home, tmp_path / "copy")
    assert (tmp_path / "copy" / "runs" / "summary.json").read_text() == f'{{"artifact": "{tmp_path}/copy/artifacts/a"}}'
    assert homes.snapshot(home) == before


def test_a_change_reaches_the_tests_that_import_it_the_nearest_first() -> None:
    files = list(reach.reached(["nmt_core/search/beam.py"]))
    assert "tests/unit/search/test_beam.py" in files[:20]
    assert "tests/unit/test_translator.py" in files
    assert "tests/unit/test_errors.py" not in files
    assert not [file for file in files if file.startswith("tests/faults/")]


def test_only_files_whose_costs_fit_together_are_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "costs.json").write_text('{"a": 2.0, "b": 3.5, "c": 0.0, "d": 1.0}')
    monkeypatch.setattr(reach, "read_costs", functools.partial(costs.read_costs, tmp_path / "costs.json"))
    assert reach.chosen(["a", "b", "c", "d"], seconds=3) == (["a", "c", "d"], 1)
    (tmp_path / "costs.json").write_text('{"long": 16.0, "short": 14.0}')
    assert reach.chosen(["long", "short"], seconds=100) == (["short"], 1), "a file runs in one process"


def test_the_costs_of_children_match_a_test(tmp_path: Path) -> None:
    before = costs.spent()
    process: Any = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        until(lambda: costs.spent() - before > 0.3)
    finally:
        process.kill()
        process.wait()
    assert costs.spent() - before > 0.3


RUN_THAT_STARTS_SOMETHING = """
import subprocess, sys, time

def test_it(request):
    folder = request.config.rootpath
    for name, deaf in (("hears", ""), ("deaf", "signal.signal(signal.SIGTERM, signal.SIG_IGN);")):
        code = f"import signal, time; {deaf} open('{name}', 'w').close(); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", code], cwd=folder, start_new_session=True)
        while not (folder / name).exists():
            time.sleep(0.01)
        (folder / name).write_text(str(child.pid))
    (folder / "started").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)

def test_another():
    assert False, "it is not run"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there the environment of any process can be read")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, None], ids=["SIGINT", "SIGKILL", "session timeout"])
@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.cpu(20)
def test_nothing_outlives_a_run_that_is_ended(number: int | None, workers: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(RUN_THAT_STARTS_SOMETHING)
    (tmp_path / "pytest.ini").touch()
    plugins = (part for name in ("support.keeper", "xdist.plugin", "pytest_timeout") for part in ("-p", name))
    command = [sys.executable, "-m", "pytest", *plugins, "--grace", "1", "--numprocesses", workers]
    command += ["--session-timeout", "0.1"] if number is None else []
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTEST_ADDOPTS": ""}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others take seconds to import
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    # If the tests run in the background, SIGINT may be ignored, which children inherit
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    run = subprocess.Popen(
        command, cwd=tmp_path, env=environment, start_new_session=True, text=True, preexec_fn=heed, **pipes
    )
    until((tmp_path / "started").exists)
    started = [psutil.Process(int((tmp_path / name).read_text())) for name in ("hears", "deaf")]
    assert all(map(runs, started))
    if number is None:
        (tmp_path / "go").touch()
    else:
        run.send_signal(number)
    said, _ = run.communicate()  # the keeper shares its stdout
    assert not any(map(runs, started)), said
    assert said.count("left behind by tests: ") >= 2


def test_the_name_of_a_case_does_not_depend_on_the_time(request: pytest.FixtureRequest) -> None:
    """A packed file holds the time, and processes that collect in different seconds would not agree."""
    names = [
        request.config.hook.pytest_make_parametrize_id(config=request.config, val=value, argname="content")
        for value in (gzip.compress(b"", mtime=1), gzip.compress(b"", mtime=2))
    ]
    assert names == ["content", "content"]
