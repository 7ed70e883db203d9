"""The README is true: its commands run, its recipe validates, its links lead somewhere."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.until import patient

from nmt_core.recipes.recipe import load_recipe

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found
    return found


def commands() -> list[str]:
    """Return the lines of the shell blocks, except the activation, which the test replaces by PATH."""
    lines = "".join(blocks("sh")).splitlines()
    return [line for line in lines if line.strip() and not line.startswith("source ")]


@pytest.fixture(scope="module")
def folder(continued: tuple[Any, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to work in, with the recipe of a small quickstart that has finished in its home."""
    recipe = {name: value for name, value in continued[1]["config"].items() if value is not None}
    made = tmp_path_factory.mktemp("readme")
    (made / "quickstart.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return made


@pytest.mark.parametrize("command", commands())
def test_commands_run(command: str, folder: Path, continued: tuple[Any, dict[str, Any]]) -> None:
    small = re.sub(r"(nmt (?:plan|run|why train)) quickstart\b", r"\1 quickstart.yaml", command)
    environment = dataclasses.replace(continued[0], prefect=None).environment
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", small],
        cwd=folder,
        env=environment | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=patient(250),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout  # a model of forty updates may well translate into nothing, but into a line of it


def test_python_runs(folder: Path, continued: tuple[Any, dict[str, Any]]) -> None:
    (code,) = blocks("python")
    environment = dataclasses.replace(continued[0], prefect=None).environment
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=patient(250))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n")


def test_recipe_validates(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    (tmp_path / "my-recipe.yaml").write_text(text, encoding="utf-8")
    assert load_recipe(str(tmp_path / "my-recipe.yaml")).name == "my-recipe"


def test_it_is_short() -> None:
    """A new user reads it in two minutes. The documentation has the rest."""
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    assert 350 <= len(re.findall(r"\w[\w.,'-]*", prose)) <= 450


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "file", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "infra/README.md", "benchmarks/README.md"]
)
def test_links_lead_somewhere(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?://)([^)#]+)(?:#([^)]*))?\)", text)
    assert links
    for target, anchor in links:
        page = (ROOT / file).parent / target
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), f"{target}#{anchor}"


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
