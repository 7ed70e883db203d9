"""The house rules: a function fits on a screen, and names describe the content."""

import ast
from pathlib import Path

import nmt_core

ROOT = Path(nmt_core.__file__).parent.parent
FILES = sorted([*ROOT.glob("nmt_core/**/*.py"), *ROOT.glob("flows/**/*.py")])
OTHERS = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("docs/**/*.py")])
MOST_LINES_OF_A_FUNCTION = 60


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_a_function_fits_on_a_screen() -> None:
    lines = {
        f"{name(file)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {function: count for function, count in lines.items() if count > MOST_LINES_OF_A_FUNCTION} == {}


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "misc", "common"}
    assert not [file for file in FILES if file.stem in drawers or drawers & set(file.parent.parts)]


def test_a_file_says_what_it_is() -> None:
    assert [
        name(file) for file in [*FILES, *OTHERS] if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    ] == []
