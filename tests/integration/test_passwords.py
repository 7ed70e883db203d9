"""An address of a server or a file may hold a password, which no message, log, table or file of a run shows."""

import secrets
from typing import Any

import pytest

_PASSWORD = "sesame7f3a"
_DEAD = f"http://nmt:{_PASSWORD}@127.0.0.1:9"


def slow(*arguments: str) -> Any:
    """A command that `make slow` tries: each takes seconds to import what it needs."""
    return pytest.param(arguments, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "arguments",
    [
        ("models",),
        slow("promote", "quickstart", "--why", "it is better"),
        slow("translate", "--model", "models:/quickstart@champion"),
        slow("artifacts", "gc", "--yes"),
        slow("reconcile"),
        ("deploy", "quickstart"),
        slow("worker", "--pool", "cpu"),
        ("translate", "--model", "any", "--input", f"ftp://nmt:{_PASSWORD}@127.0.0.1:9/a.txt", "--output", "b.txt"),
        ("run", "quickstart", "--set", f"corpus.train=[https://nmt:{_PASSWORD}@example.org/a.tsv]"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_an_error_names_the_address_without_its_password(untouched: Any, arguments: tuple[str, ...]) -> None:
    done = untouched(*arguments, code=1, MLFLOW_TRACKING_URI=_DEAD, PREFECT_API_URL=f"{_DEAD}/api")
    assert "://nmt:***@" in done.stderr
    assert _PASSWORD not in done.stdout + done.stderr
    assert [
        file for file in untouched.home.rglob("*") if file.is_file() and _PASSWORD.encode() in file.read_bytes()
    ] == []


@pytest.mark.slow
def test_a_run_without_its_mlflow_keeps_no_password(served: Any, recipe: list[str]) -> None:
    """The name of the recipe is searched in the same way, so that a search in the wrong place cannot pass."""
    name = f"hushed{secrets.token_hex(6)}"
    done = served("run", *recipe, "--set", f"name={name}", "--until", "download", MLFLOW_TRACKING_URI=_DEAD)
    assert "http://nmt:***@127.0.0.1:9" in done.stdout + done.stderr
    assert _PASSWORD not in done.stdout + done.stderr
    folders = (served.home, served.prefect.database.parent)
    files = {file: file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}
    assert any(name.encode() in content for file, content in files.items() if file.name.startswith("prefect.db"))
    assert [file for file, content in files.items() if _PASSWORD.encode() in content] == []
