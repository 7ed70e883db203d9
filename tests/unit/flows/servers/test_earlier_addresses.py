"""Modules that work pools and services of earlier versions start still exist, and name the change to make."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("module", "words", "expected", "remedy"),
    [
        ("flows.isolated", ["json.tool", "--help"], "--indent", "nmt deploy"),
        ("flows.worker", ["--help"], "--pool", "flows.servers.worker"),
    ],
)
def test_an_earlier_address_works_and_names_the_present_one(
    module: str, words: list[str], expected: str, remedy: str, tmp_path: Path
) -> None:
    # Without the address of a server, a worker would start one, in the home of the tester.
    away = {"PREFECT_API_URL": "http://127.0.0.1:9/api", "PREFECT_HOME": str(tmp_path)}
    command = [sys.executable, "-P", "-m", module, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | away)
    assert expected in done.stdout
    assert f"{module} is now flows.servers.{module.rpartition('.')[2]}" in done.stderr
    assert remedy in done.stderr
