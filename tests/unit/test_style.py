"""The prose of code and pages: patterns that make a reader solve a sentence first are counted, and held near zero."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import nmt_core

ROOT = Path(nmt_core.__file__).parent.parent
FILES = sorted(file for folder in ("nmt_core", "flows", "benchmarks") for file in ROOT.glob(f"{folder}/**/*.py"))
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "infra/*.md", "benchmarks/*.md")
    for page in ROOT.glob(pattern)
    if page.name != "CHANGELOG.md"  # entries of earlier releases stay as they were
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
    "whoever": r"\b(whoever|nobody|somebody|anybody)\b",
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


def docstrings(file: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the docstrings of a file: of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield statement.lineno, value.value.strip()


def prose(file: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the comments and of the strings that are sentences."""
    for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.count(" ") > 1):
            for number, line in enumerate(token.string.split("\n")):
                yield token.start[0] + number, re.sub(r"\{[^{}]*\}", "", line)  # code within an f-string


def listed(file: Path, line: int, text: str) -> str:
    return f"{file.relative_to(ROOT)}:{line}: {text[:80]}"


@pytest.mark.parametrize("pattern", BEGINNINGS)
def test_a_docstring_begins_with_a_verb_or_a_noun(pattern: str) -> None:
    found = [
        listed(file, line, text)
        for file in FILES
        for line, text in docstrings(file)
        if re.match(BEGINNINGS[pattern], text)
    ]
    assert len(found) <= MOST, "\n".join(found)


def test_the_first_line_of_a_docstring_is_one_thought() -> None:
    found = [
        listed(file, line, text)
        for file in FILES
        for line, text in docstrings(file)
        if ";" in re.sub(r"`[^`]*`", "", text.partition("\n")[0])
    ]
    assert len(found) <= MOST, "\n".join(found)


@pytest.mark.parametrize("pattern", WORDS)
def test_plain_words(pattern: str) -> None:
    found = [
        listed(file, line, text.strip())
        for file in FILES
        for line, text in prose(file)
        if re.search(WORDS[pattern], text)
    ]
    assert len(found) <= MOST, "\n".join(found)


@pytest.mark.parametrize("pattern", WORDS)
def test_plain_words_on_the_pages(pattern: str) -> None:
    found = [
        listed(page, number, line.strip())
        for page in PAGES
        for number, line in outside_of_code(page)
        if re.search(WORDS[pattern], line)
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
    assert sum(1 for file in FILES for _ in docstrings(file)) > 1_500
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
