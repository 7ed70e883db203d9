"""The environment that `make` creates."""

import os
import subprocess
import sys
import venv
from pathlib import Path

MAKEFILE = Path(__file__).parents[3] / "Makefile"


def make(folder: Path) -> None:
    """Install into `.venv` by the real rules, with a pip that does nothing."""
    for name in ("requirements.lock", "pyproject.toml"):
        (folder / name).touch()
    command = ["make", "--file", str(MAKEFILE), "install", f"PYTHON={sys.executable}", "PIP=true", "TORCH_INDEX="]
    # The `make` that runs these tests hands on the variables of its command line, such as VENV, in its environment.
    subprocess.run(command, cwd=folder, env={"PATH": os.environ["PATH"]}, check=True, capture_output=True)


def test_an_environment_keeps_its_python_when_the_requirements_change(tmp_path: Path) -> None:
    """Another Python over it would mix the programs of one with the libraries of the other."""
    environment = tmp_path / ".venv"
    venv.create(environment, with_pip=False, symlinks=True)
    settings = environment / "pyvenv.cfg"
    settings.write_text(settings.read_text() + "made-by = another Python\n")
    make(tmp_path)
    assert "made-by = another Python" in settings.read_text()
    assert (environment / ".installed").exists()


def test_an_environment_that_is_not_there_is_made(tmp_path: Path) -> None:
    make(tmp_path)
    assert (tmp_path / ".venv" / "bin" / "python").exists()
