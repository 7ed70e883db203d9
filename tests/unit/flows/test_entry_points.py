"""Every program of the packages answers help and wrong arguments with one text, and does nothing else."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.main

from flows.cli.app import app

ROOT = Path(__file__).parents[3]
ANY_WORD = {"nmt_core.corpus.fetching.resolvers.mtdata_lookup"}
"""Modules for which any word is a right argument."""
# Forked from one process that has imported what takes long. Each program has its own streams and a home without files.
DRIVER = """
import importlib, json, os, runpy, sys, traceback
import prefect.client.orchestration, torch.distributed.run, typer.main

def run(program, arguments):
    if ":" in program:
        module, name = program.split(":")
        sys.argv = ["nmt", *arguments]
        getattr(importlib.import_module(module), name)()
    else:
        sys.argv = [program, *arguments]
        runpy.run_module(program, run_name="__main__", alter_sys=True)

for number, (program, arguments) in enumerate(json.loads(sys.argv[1])):
    if not (child := os.fork()):
        for stream in (1, 2):
            os.dup2(os.open(f"{sys.argv[2]}/{number}.{stream}", os.O_WRONLY | os.O_CREAT), stream)
        code = 0
        try:
            run(program, arguments)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 99
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def modules() -> list[str]:
    """Return the modules of the packages that `python -m` runs."""
    found = []
    for package in ("flows", "nmt_core"):
        for file in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            if file.name == "__main__.py" or re.search(r"^if __name__ == .__main__.:", file.read_text(), re.MULTILINE):
                found.append(name.removesuffix(".__main__"))
    return found


def commands(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the words of each command of `nmt` and of each group."""
    inner = getattr(command, "commands", {})
    return [path, *(words for name, one in inner.items() for words in commands(one, (*path, name)))]


def answers(asked: Sequence[tuple[str, Sequence[str]]], folder: Path) -> list[tuple[int, str, str]]:
    """Return exit code, output and errors of each program with its arguments."""
    home, streams = folder / "home", folder / "streams"
    home.mkdir()
    streams.mkdir()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NMT_", "PREFECT_", "MLFLOW_"))}
    own |= {name: str(home) for name in ("HOME", "PREFECT_HOME", "NMT_HOME")}
    command = [sys.executable, "-P", "-c", DRIVER, json.dumps(asked), str(streams)]
    done = subprocess.run(
        command, cwd=home, env=own, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True
    )
    assert [file for file in home.rglob("*") if file.is_file()] == [], "nothing is made"
    texts = [[(streams / f"{number}.{one}").read_text() for one in (1, 2)] for number in range(len(asked))]
    return [(int(code), *text) for code, text in zip(done.stdout.split(), texts, strict=True)]


@pytest.mark.slow
@pytest.mark.cpu(30)
def test_modules_answer_before_they_do_anything(tmp_path: Path) -> None:
    assert {"flows.worker", "flows.servers.worker", "nmt_core.train"} <= {*modules()}
    asked = [(module, words) for module in modules() for words in (["--help"], ["--no-such-option"], ["no-such-word"])]
    asked = [(module, words) for module, words in asked if words != ["no-such-word"] or module not in ANY_WORD]
    asked.append(("flows.servers.worker", ["--pool", "cpu"]))  # right, and no server is known
    asked.append(("flows.servers.worker", []))
    require_answers(asked, tmp_path)


@pytest.mark.slow
@pytest.mark.cpu(30)
def test_commands_answer_before_they_do_anything(tmp_path: Path) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert list(scripts) == ["nmt"]
    asked = [
        (scripts["nmt"], [*words, one])
        for words in commands(typer.main.get_command(app))
        for one in ("--help", "--no-such-option")
    ]
    assert len(asked) > 50
    require_answers(asked, tmp_path)


def require_answers(asked: Sequence[tuple[str, Sequence[str]]], folder: Path) -> None:
    wrong = []
    for (program, words), (code, out, errors) in zip(asked, answers(asked, folder), strict=True):
        is_help = words[-1:] == ["--help"]
        is_right = (code == 0 and "sage" in out) if is_help else (code == 2 and errors and not out)
        if not is_right or "Traceback" in errors:
            wrong.append((program, words, code, out[-300:], errors[-300:]))
    assert not wrong
