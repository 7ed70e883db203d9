"""Sentences of the main test set, side by side as each system of a comparison translates them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars
from rich.text import Text

from flows.comparison.contenders import ComparedRun
from flows.display.markdown import plain
from flows.html_report.blocks import Marked
from flows.html_report.differences import with_differences
from flows.runs.summary import read_summary
from flows.settings import Settings
from nmt_core.evaluate.examples import Choice, choose
from nmt_core.evaluate.sentences import read_sentences
from nmt_core.evaluate.system_scores import read_systems

_SHOWN = 5
_TEXT = ["source", "reference"]


@dataclass
class Example:
    """Sentence with its translations."""

    source: str
    reference: str
    translations: dict[str, str]
    """Translation by each recipe and other system, by its name."""


@dataclass
class Examples:
    """Sentences of the main test set, and what could not be shown."""

    test_set: str = ""
    items: list[Example] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Recipes without translations of these sentences, with the reason."""


def find_examples(runs: Sequence[ComparedRun], settings: Settings, choice: Choice) -> Examples:
    """Return sentences as translated by the first finished run of each recipe, and by their other systems.

    The sentences are chosen by the first recipe. A recipe with another test set is left out.

    Args:
        runs: compared runs.
        settings: settings that locate the runs.
        choice: rule for the choice.
    """
    found = Examples()
    rows: polars.DataFrame | None = None
    for run in _first_finished(runs):
        own = _sentences(run, settings)
        if own is None:
            found.left_out.append(f"{run.recipe}: its translations are no longer in the store")
            continue
        test_set, table = own
        if rows is None:
            found.test_set, rows = test_set, table.select(*_TEXT, "hypothesis")
        elif not table.select(_TEXT).equals(rows.select(_TEXT)):
            found.left_out.append(f"{run.recipe}: its main test set, {test_set}, has other sentences")
            continue
        rows = rows.with_columns(table["hypothesis"].alias(f"0 {run.recipe}"))
        others = [name for name in table.columns if name.startswith("1 ") and name not in rows.columns]
        rows = rows.with_columns(table.select(others))
    if rows is not None:
        names = sorted((name for name in rows.columns if name[:2] in {"0 ", "1 "}), key=lambda name: name[0])
        for row in rows[choose(rows, choice, _SHOWN)].iter_rows(named=True):
            found.items.append(Example(row["source"], row["reference"], {name[2:]: row[name] for name in names}))
    return found


def _first_finished(runs: Sequence[ComparedRun]) -> Iterator[ComparedRun]:
    seen = set[str]()
    for run in runs:
        if run.status == "finished" and run.recipe not in seen:
            seen.add(run.recipe)
            yield run


def _sentences(run: ComparedRun, settings: Settings) -> tuple[str, polars.DataFrame] | None:
    """Return the main test set and its sentences, with a column `1 NAME` for each other system of the recipe."""
    summary = read_summary(settings.runs, run.run_id)
    stage = summary.stage("evaluate") if summary else None
    if not summary or not stage or not summary.metrics:
        return None
    folder, test_set = Path(stage.artifact), summary.metrics[0].test_set
    rows = read_sentences(folder, test_set)
    if rows is None:
        return None
    systems = read_systems(folder, test_set)
    if systems is not None:
        names = [name for name in systems.columns if name not in rows.columns]
        rows = rows.with_columns(systems[name].alias(f"1 {name}") for name in names)
    return test_set, rows


def on_a_terminal(found: Examples) -> Iterator[Text]:
    """Yield the lines of the examples. Words are bold that are not in the reference, or not in this order."""
    for number, example in enumerate(found.items, 1):
        lines = _lines(example)
        width = max(len(name) for name, _ in lines) + 2
        yield Text(f"{found.test_set}, example {number}", style="bold")
        for name, text in lines:
            parts = ((part, "bold red" if marked else "") for part, marked in text.parts)
            yield Text.assemble((name.ljust(width), "dim"), *parts)
    for reason in found.left_out:
        yield Text(reason, style="dim")


def as_markdown(found: Examples) -> str:
    """Return the examples as Markdown, with marked words in bold."""
    lines = []
    for number, example in enumerate(found.items, 1):
        lines += [f"**{plain(found.test_set)}, example {number}**", ""]
        for name, text in _lines(example):
            lines.append(f"- {plain(name)}: {''.join(_in_markdown(*part) for part in text.parts)}")
        lines.append("")
    return "\n".join([*lines, *(f"- {plain(reason)}" for reason in found.left_out)])


def _in_markdown(part: str, marked: bool) -> str:
    """Return a part of a text, with the spaces around it, which would end a text in bold."""
    core = part.strip()
    before, _, after = part.partition(core) if core else (part, "", "")
    return f"{before}**{plain(core)}**{after}" if marked and core else f"{before}{plain(core)}{after}"


def _lines(example: Example) -> list[tuple[str, Marked]]:
    lines = [("source", Marked([(example.source, False)])), ("reference", Marked([(example.reference, False)]))]
    return lines + [(name, with_differences(text, example.reference)) for name, text in example.translations.items()]
