"""The package as a wheel, in a user's folder that has folders with the names of ours, as Prefect's projects do."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.deployment.deployments import JOB

_ROOT = Path(__file__).parents[2]
_POOL = "other"
_ENGINE = ("-P", "-m", "flows.servers.isolated", "prefect.engine")  # as a worker starts it
_HIDING = ("flows", "nmt_core", "prefect", "mlflow", "uvicorn", "torch")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """`nmt` of a separate environment, which borrows all other packages from this one."""
    source = tmp_path / "source"
    shutil.copytree(_ROOT / "flows", source / "flows", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(_ROOT / "nmt_core", source / "nmt_core", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(_ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheels, place = tmp_path / "wheels", tmp_path / "environment"
    build = [*pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(source)]
    subprocess.run(build, check=True, cwd=tmp_path)
    (wheel,) = wheels.glob("*.whl")
    venv.create(place, symlinks=True, with_pip=False)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    target = [*pip, "--python", str(place / "bin" / "python")]
    subprocess.run(
        [*target, "install", "--no-index", "--no-deps", "--no-compile", str(wheel)], check=True, cwd=tmp_path
    )
    shutil.rmtree(source)
    found = [str(place / "bin" / "python"), "-P", "-c", "import flows; print(flows.__file__)"]
    done = subprocess.run(found, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith(str(packages)), "ours is the wheel's"
    return place / "bin" / "nmt"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Folder whose packages end every process that imports them."""
    for name in _HIDING:
        (tmp_path / "project" / name).mkdir(parents=True)
        (tmp_path / "project" / name / "__init__.py").write_text(
            f"raise SystemExit('this is the {name} of the user')\n"
        )
    return tmp_path / "project"


@pytest.fixture
def commands(nmt: Any, program: Path, project: Path) -> Iterator[Any]:
    """Start `nmt` of the wheel in that folder."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        options = {"cwd": project, "env": nmt.environment, "start_new_session": True} | streams
        started.append(subprocess.Popen([str(program), *arguments], **options))
        return started[-1]

    yield start
    for each in reversed(started):
        if each.poll() is None:
            os.killpg(each.pid, signal.SIGINT)
            each.communicate()


def test_the_command_and_the_engine_of_a_worker_do_not_look_there(untouched: Any, project: Path) -> None:
    """The package under test is not a wheel, but starts like one."""
    script = str(Path(sys.executable).with_name("nmt"))
    for command, code, word in (
        ([script, "plan", "quickstart", "--until", "download"], 0, "download"),
        ([sys.executable, *_ENGINE], 1, "Invalid flow run id"),
    ):
        done = subprocess.run(
            command, cwd=project, env=untouched.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code and word in done.stdout + done.stderr, done.stdout + done.stderr
    assert f"python {' '.join(_ENGINE)}" == JOB["command"]


@pytest.mark.slow
@pytest.mark.cpu(90)
def test_folders_of_the_user_do_not_hide_ours(nmt: Any, ask: Any, commands: Any) -> None:
    up = ask(nmt)
    up.process = commands("up", "quickstart")
    up.wait_until_up()
    assert up.wait(up.start("gc/gc")) == "COMPLETED", "by the worker of `nmt up`"

    deploy = commands("deploy", "quickstart", "--pool", _POOL)
    said, _ = deploy.communicate()
    assert deploy.returncode == 0 and f"gc/gc on {_POOL}/default" in said, said
    worker = commands("worker", "--pool", _POOL)
    run = up.start("download/quickstart")
    assert up.wait(run) == "COMPLETED", "by `nmt worker`"
    assert worker.poll() is None

    trained = commands("run", "quickstart", "--set", "train.max_updates=1", "--until", "download")
    said, _ = trained.communicate()
    assert trained.returncode == 0, said
