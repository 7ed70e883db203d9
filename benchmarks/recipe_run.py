"""Run a recipe that a benchmark has made, in a home of its own, and read what came of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml


def write(home: Path, recipe: dict[str, Any]) -> Path:
    """Write a recipe to the home, by its name, and return the file."""
    home.mkdir(parents=True, exist_ok=True)
    file = (home / f"{recipe['name']}.yaml").absolute()
    file.write_text(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return file


def run(home: Path, recipe: dict[str, Any], *arguments: str) -> Any:
    """Run a recipe, and return the summary of `nmt run --json`. What has been made already is not made again.

    If the run fails, this program ends with a message.
    """
    command = [str(Path(sys.executable).with_name("nmt")), "run", str(write(home, recipe)), *arguments, "--json"]
    environment = os.environ | {"NMT_HOME": str(home.absolute())}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"{recipe['name']} ended with {done.returncode}; the same command resumes from there")
    return json.loads(done.stdout.splitlines()[-1])


def artifact(summary: Any, stage: str) -> Path:
    """Return the folder of the artifact that a stage made or reused."""
    return next(Path(row["artifact"]) for row in summary["stages"] if row["name"] == stage)


def report(summary: Any, stage: str) -> Any:
    """Return the report of a stage."""
    return json.loads((artifact(summary, stage) / "report.json").read_bytes())
