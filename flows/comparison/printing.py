"""Printing of a comparison: as tables on a terminal, as Markdown or as JSON."""

import json
from collections.abc import Sequence
from typing import Literal

from rich.table import Table

from flows.comparison.contenders import ComparedRun
from flows.comparison.table import markdown, notes, rows, tables
from flows.display.progress import terminal
from flows.display.tables import terminal_table

Form = Literal["table", "markdown", "json"]


def print_comparison(runs: Sequence[ComparedRun], form: Form) -> None:
    """Print the tables of compared runs to stdout."""
    table = rows(runs)
    if form == "json":
        print(json.dumps([row.model_dump(mode="json") for row in table]), flush=True)
    elif form == "markdown":
        print(markdown(table), flush=True)
    else:
        console = terminal(to_stderr=False)
        for lines in tables(table):
            console.print(_on_a_terminal(lines))
        for note in notes(table):
            console.print(note, style="dim", soft_wrap=True)


def _on_a_terminal(lines: Sequence[Sequence[str]]) -> Table:
    headings = lines[0]
    grid = terminal_table(headings, headings[1:], folded=headings)
    for line in lines[1:]:
        grid.add_row(*line)
    return grid
