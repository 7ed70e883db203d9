"""User text is printed unchanged: brackets, colons and backslashes of recipes and artifacts are not markup."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.markup import MarkupError
from rich.text import Text

import flows
from flows.display.progress import styled, terminal, titled
from nmt_core.recipes.recipe import load_recipe

BRACKETS = r"see [/foo] [bold]not bold[/] :smile: \[x]"
FILES = sorted(Path(flows.__file__).parent.rglob("*.py"))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe whose every free text holds brackets."""
    values = load_recipe("quickstart").model_dump(mode="json", exclude_none=True)
    values |= {"name": "brackets", "description": BRACKETS}
    file = tmp_path / "[b] recipe.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return file


def nmt(folder: Path, *arguments: str) -> str:
    """Return the output of a command, which must succeed."""
    command = [sys.executable, "-c", "from flows.cli.app import main; main()", *arguments]
    environment = os.environ | {"NMT_HOME": str(folder / "home")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_brackets_in_a_recipe_are_printed(recipe: Path, tmp_path: Path) -> None:
    assert f"brackets: {BRACKETS}\n" in nmt(tmp_path, "plan", str(recipe))
    assert "clean would run" in nmt(tmp_path, "why", "clean", str(recipe), "--set", "clean.source_word_list='[/b].txt'")


def test_brackets_are_printed_in_cells_and_branches(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table
    from rich.tree import Tree

    console = terminal(to_stderr=False)
    table, tree = Table(), Tree(BRACKETS)
    table.add_column(BRACKETS)
    table.add_row(BRACKETS)
    tree.add(BRACKETS)
    for shown in (table, tree, BRACKETS, styled((BRACKETS, "bold"), BRACKETS), Text(BRACKETS)):
        console.print(shown)
    assert capsys.readouterr().out.count(BRACKETS) == 2 + 2 + 1 + 2 + 1
    with pytest.raises(MarkupError):  # so it was
        Text.from_markup(BRACKETS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FILES[0].parent)))
def test_consoles_are_made_in_one_place_alone(file: Path) -> None:
    """Markup is a property of the console: every console of `terminal` prints text unchanged."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [name for name in names if isinstance(name, ast.Name) and name.id in {"Console", "from_markup"}]
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    markup = [word.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for word in node.keywords]
    if file.relative_to(FILES[0].parent) == Path("display/progress.py"):
        assert len(made) == 1
    else:
        assert not made and "rich.markup" not in imported and "markup" not in markup


def test_what_to_try_next_names_the_recipe_as_it_was_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recipe file has a name inside, which no command finds."""
    from flows.cli import closing
    from flows.runs.summary import RegisteredModel, RunSummary, Sample

    monkeypatch.setenv("NMT_HOME", str(tmp_path))
    config = load_recipe("quickstart").model_copy(update={"name": "inside"})
    summary = RunSummary.begin(config, "run")
    summary.model = RegisteredModel(name="m", version="1", aliases=["champion"], verdict=BRACKETS)
    typed = ["my recipes/a.yaml", "--set", "train.seed=2"]
    closing.show(summary, terminal(to_stderr=False), typed)
    out = capsys.readouterr().out
    assert "nmt plan 'my recipes/a.yaml' --set train.seed=2 --set search.beam_size=8" in out
    assert f"Model m version 1 (champion): {BRACKETS}" in out
    closing.show(summary, terminal(to_stderr=False))
    assert "nmt plan inside --set search" in capsys.readouterr().out
    summary.samples = [Sample(source="It's here.", translation="Da ist es.", pair="en-de")]
    closing.show(summary, terminal(to_stderr=False))
    told = capsys.readouterr().out
    assert "nmt translate --model models:/m@champion --to de" in told, "a model for many languages asks for one"


def test_a_recipe_without_a_description_is_only_named() -> None:
    assert titled("mine", "").plain == "mine"
    assert titled("mine", BRACKETS).plain == f"mine: {BRACKETS}"
