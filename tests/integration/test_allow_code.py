"""Code that a recipe names runs if the owner of the recipe types the command, and not if a form sends the recipe."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError

_SCORE = "import sys; print(*(1 for _ in sys.stdin), sep=chr(10)); open(sys.argv[1], 'a').write('was here')"


def program(trace: Path) -> str:
    """Command that scores every pair, and leaves a trace."""
    return f'"{sys.executable}" -c "{_SCORE}" {trace}'


def test_plan_imports_nothing_that_a_recipe_names(tmp_path: Path) -> None:
    for name, text in {"__init__": "", "inner": "\ndef drop(pairs): ...\n"}.items():
        file = tmp_path / "evil" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"open({str(tmp_path / name)!r}, 'w').close()\n{text}")
    code = "from flows.cli.app import main; main()"
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NMT_HOME": str(tmp_path / "home")}

    def nmt(*arguments: str) -> str:
        command = [sys.executable, "-c", code, *arguments, "--set", "clean.filters=['evil.inner:drop']"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    nmt("plan", "quickstart")
    before = nmt("why", "clean", "quickstart")
    assert not (tmp_path / "__init__").exists() and not (tmp_path / "inner").exists()
    (tmp_path / "evil" / "inner.py").write_text("other code")
    assert nmt("why", "clean", "quickstart") != before, "its content counts all the same"
    assert not (tmp_path / "__init__").exists()


@pytest.fixture
def scored(tmp_path: Path) -> dict[str, Any]:
    """A rule whose scorer is a program that leaves a trace."""
    return {"scorer": "mine", "command": program(tmp_path / "trace"), "min_score": 0.5}


@pytest.fixture
def surroundings(tmp_path: Path, databases: Any) -> Iterator[None]:
    """Environment of a worker with a home of its own."""
    before = dict(os.environ)
    os.environ |= {"NMT_HOME": str(databases(tmp_path / "of-the-worker")), "NMT_THREADS": "1"}
    yield
    os.environ.clear()
    os.environ.update(before)


def test_a_form_may_name_no_code(
    prefect_api: str, surroundings: None, small_recipe: dict[str, Any], scored: dict[str, Any], tmp_path: Path
) -> None:
    """The flow runs here as a worker runs it. A test below checks that a worker does so."""
    from flows.retrain import retrain

    clean = small_recipe["clean"] | {"scores": [scored]}
    config = PipelineConfig.model_validate(small_recipe | {"clean": clean})
    with pytest.raises(ConfigError, match=r"clean\.scores: command .*NMT_ALLOW_CODE=1"):
        retrain(config=config, until="clean")
    assert not (tmp_path / "trace").exists()


@pytest.mark.slow
@pytest.mark.cpu(80)
def test_the_workers_of_nmt_up_refuse_what_a_form_names(
    nmt: Any, small_recipe: dict[str, Any], start_up: Any, scored: dict[str, Any], tmp_path: Path
) -> None:
    up = start_up(nmt)
    clean = small_recipe["clean"] | {"scores": [scored]}
    run = up.start("retrain/quickstart", config=small_recipe | {"clean": clean})
    assert up.wait(run) == "FAILED"
    said = up.call(f"flow_runs/{run}")["state"]["message"]
    assert "clean.scores: command" in said and "NMT_ALLOW_CODE=1" in said
    assert not (tmp_path / "trace").exists()
    up.end()


def test_the_command_line_may_name_code(
    make_nmt: Any, prefect_server: Any, recipe: list[str], scored: dict[str, Any], tmp_path: Path
) -> None:
    nmt, trace = make_nmt(tmp_path / "home", prefect=prefect_server), tmp_path / "trace"
    changed = ["--set", f"clean.scores={json.dumps([scored])}"]
    refused = nmt("run", *recipe, *changed, "--until", "clean", code=1, NMT_ALLOW_CODE="0")
    assert "which NMT_ALLOW_CODE forbids here" in refused.stderr
    assert not trace.exists()
    nmt("run", *recipe, *changed, "--until", "clean")
    assert trace.read_text().startswith("was here")


def test_the_switch_is_0_or_1(untouched: Any) -> None:
    done = untouched("plan", "quickstart", code=1, NMT_ALLOW_CODE="yes")
    assert "NMT_ALLOW_CODE='yes': must be 0 or 1" in done.stderr
