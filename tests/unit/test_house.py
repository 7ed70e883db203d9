"""The house rules: a file has one job, a function fits on a screen, and names say what is inside."""

import ast
from pathlib import Path

import pytest

import nmt_core

ROOT = Path(nmt_core.__file__).parent.parent
FILES = sorted([*ROOT.glob("nmt_core/**/*.py"), *ROOT.glob("flows/**/*.py")])
IDS = [str(file.relative_to(ROOT)) for file in FILES]
MOST_LINES_OF_A_FILE = 300
MOST_LINES_OF_A_FUNCTION = 60


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_a_file_has_one_job(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_A_FILE


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_a_function_fits_on_a_screen(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno
            lines = node.end_lineno - node.lineno + 1
            assert lines <= MOST_LINES_OF_A_FUNCTION, f"{node.name} has {lines} lines"


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "misc", "common"}
    assert not [file for file in FILES if file.stem in drawers or drawers & set(file.parent.parts)]


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_a_file_says_what_it_is(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
