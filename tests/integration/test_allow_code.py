"""Code that a recipe names runs where the recipe's owner types the command, and not where a form brings the recipe."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_SCORE = "import sys; print(*(1 for _ in sys.stdin), sep=chr(10)); open(sys.argv[1], 'a').write('was here')"


def program(trace: Path) -> str:
    """A command that scores every pair, and leaves a trace."""
    return f'"{sys.executable}" -c "{_SCORE}" {trace}'


def test_plan_imports_nothing_that_a_recipe_names(tmp_path: Path) -> None:
    for name, text in {"__init__": "", "inner": "\ndef drop(pairs): ...\n"}.items():
        file = tmp_path / "evil" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"open({str(tmp_path / name)!r}, 'w').close()\n{text}")
    code = "from flows.cli import main; main()"
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


@pytest.mark.cpu(150)
def test_a_form_may_name_no_code_and_the_command_line_may(
    nmt: Any, small_recipe: dict[str, Any], recipe: list[str], start_up: Any, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    rule = {"scorer": "mine", "command": program(trace), "min_score": 0.5}

    up = start_up(nmt)
    clean = small_recipe["clean"] | {"scores": [rule]}
    run = up.start("retrain/quickstart", config=small_recipe | {"clean": clean})
    assert up.wait(run) == "FAILED"
    said = up.call(f"flow_runs/{run}")["state"]["message"]
    assert "clean.scores: command" in said and "NMT_ALLOW_CODE=1" in said
    assert not trace.exists()
    up.end()

    changed = ["--set", f"clean.scores={json.dumps([rule])}"]
    refused = nmt("run", *recipe, *changed, "--until", "clean", code=1, NMT_ALLOW_CODE="0")
    assert "which NMT_ALLOW_CODE forbids here" in refused.stderr
    assert not trace.exists()
    nmt("run", *recipe, *changed, "--until", "clean")
    assert trace.read_text().startswith("was here")


def test_the_switch_is_0_or_1(untouched: Any) -> None:
    done = untouched("plan", "quickstart", code=1, NMT_ALLOW_CODE="yes")
    assert "NMT_ALLOW_CODE='yes': must be 0 or 1" in done.stderr
