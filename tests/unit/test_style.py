"""The prose of code and pages: patterns that make a reader solve a sentence first are counted, and held near zero."""

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import nmt_core

ROOT = Path(nmt_core.__file__).parent.parent
FOLDERS = ("nmt_core", "flows", "benchmarks", "docs", "infra")
FILES = sorted(file for folder in FOLDERS for file in ROOT.glob(f"{folder}/**/*.py"))
TESTS = sorted(file for file in ROOT.glob("tests/**/*.py") if file != Path(__file__))
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "infra/*.md", "benchmarks/*.md", "Makefile", ".ci/run")
    for page in ROOT.glob(pattern)
)

BEGINNINGS = {
    "a question": r"(What|Who|Whose|Whether|How|Where|Which|Why|When)\b",
    "no noun": r"(Of|Those of|That of|The same|As of|As in|As)\b",
}
"""Beginnings of a docstring that does not stand alone in an editor."""

WORDS = {
    "go on": r"\b(go|goes|going|went) on\b",
    "but for": r"\bbut for\b",
    "in vain": r"\bin vain\b",
    "next to nothing": r"\bnext to (nothing|none)\b",
    "so many": r"\b(ever )?so many\b",
    "whoever": r"\b(whoever|nobody|somebody|anybody|everybody)\b",
    "he": r"\b(him|his|himself)\b|\b[Hh]e (is|has|was|can|may|wants|gets|sees|types)\b",
    "knob": r"knob",
    "mend": r"\bmend(s|ed)?\b",
    "those of": r"\bthose of\b",
    "that of": r"\bthat of\b",
    "as of": r"\bas of (a|an|the|`)",
}
"""Words and turns for which the field has a plain one."""

MOST = 0
"""Occurrences of each pattern that are let through."""


Lines = tuple[tuple[int, str], ...]
"""Number and text of lines."""


@functools.cache
def docstrings(file: Path) -> Lines:
    """Return line and text of the docstrings of a file: of modules, classes, functions and attributes."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.append((statement.lineno, value.value.strip()))
    return tuple(found)


@functools.cache
def prose(file: Path) -> Lines:
    """Return line and text of the comments, and of the strings that are sentences.

    The strings of tests are often examples of text, so that only their names, docstrings and
    messages of assertions count.
    """
    text = file.read_text(encoding="utf-8")
    found = [*_messages(text), *docstrings(file)] if file in TESTS else []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_sentence = token.type == tokenize.STRING and token.string.count(" ") > 1 and file not in TESTS
        if token.type == tokenize.COMMENT or is_sentence:
            for number, line in enumerate(token.string.split("\n")):
                found.append((token.start[0] + number, re.sub(r"\{[^{}]*\}", "", line)))  # code within an f-string
    return tuple(found)


def _messages(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            yield node.lineno, node.name.replace("_", " ")
        for part in ast.walk(node.msg) if isinstance(node, ast.Assert) and node.msg else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield node.lineno, part.value


def listed(file: Path, line: int, text: str) -> str:
    return f"{file.relative_to(ROOT)}:{line}: {text[:80]}"


@pytest.mark.parametrize("pattern", BEGINNINGS)
def test_a_docstring_begins_with_a_verb_or_a_noun(pattern: str) -> None:
    found = [
        listed(file, line, text)
        for file in FILES + TESTS
        for line, text in docstrings(file)
        if re.match(BEGINNINGS[pattern], text)
    ]
    assert len(found) <= MOST, "\n".join(found)


def test_the_first_line_of_a_docstring_is_one_thought() -> None:
    found = [
        listed(file, line, text)
        for file in FILES + TESTS
        for line, text in docstrings(file)
        if ";" in re.sub(r"`[^`]*`", "", text.partition("\n")[0])
    ]
    assert len(found) <= MOST, "\n".join(found)


@pytest.mark.parametrize("pattern", WORDS)
def test_plain_words(pattern: str) -> None:
    found = [
        listed(file, line, text.strip())
        for file in FILES + TESTS
        for line, text in prose(file)
        if re.search(WORDS[pattern], text, re.IGNORECASE)
    ]
    assert len(found) <= MOST, "\n".join(found)


@pytest.mark.parametrize("pattern", WORDS)
def test_plain_words_on_the_pages(pattern: str) -> None:
    found = [
        listed(page, number, line.strip())
        for page in PAGES
        for number, line in outside_of_code(page)
        if re.search(WORDS[pattern], line, re.IGNORECASE)
    ]
    assert len(found) <= MOST, "\n".join(found)


def outside_of_code(page: Path) -> Iterator[tuple[int, str]]:
    """Number and text of the lines of a page that are in no fenced block, without the code spans in them."""
    is_code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), start=1):
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        if not is_code and not is_fence:
            yield number, re.sub(r"`[^`]*`", "", line)


def test_the_patterns_are_found(tmp_path: Path) -> None:
    """The counts are not zero because nothing is looked at."""
    assert sum(len(docstrings(file)) for file in FILES) > 1_500
    assert sum(len(docstrings(file)) for file in TESTS) > 1_000
    assert any(text == "a message of a test" for _, text in _messages('assert 1, f"a message of a test"'))
    assert sum(1 for page in PAGES for _ in outside_of_code(page)) > 1_500
    file = tmp_path / "bad.py"
    file.write_text('def f():\n    """What goes on; those of his."""\n    # nobody but for him\n')
    [(line, text)] = docstrings(file)
    assert (line, bool(re.match(BEGINNINGS["a question"], text))) == (2, True)
    lines = [text for _, text in prose(file)]
    assert {name for name, pattern in WORDS.items() for text in lines if re.search(pattern, text)} == {
        "go on",
        "those of",
        "he",
        "whoever",
        "but for",
    }
