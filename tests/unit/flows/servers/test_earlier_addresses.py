"""Modules that work pools and services of earlier versions start still exist, and name the change to make."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "words", "expected", "remedy"),
    [
        ("flows.isolated", ["json.tool", "--help"], "--indent", "nmt deploy"),
        ("flows.worker", ["--help"], "--pool", "flows.servers.worker"),
    ],
)
def test_an_earlier_address_works_and_names_the_present_one(
    module: str, words: list[str], expected: str, remedy: str
) -> None:
    command = [sys.executable, "-P", "-m", module, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert expected in done.stdout
    assert f"{module} is now flows.servers.{module.rpartition('.')[2]}" in done.stderr
    assert remedy in done.stderr
