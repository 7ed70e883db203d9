"""`nmt compare`: several recipes, one after the other, and one table."""

import json
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table

from flows.cli.interruption import Stopped, interruptible
from flows.cli.run import Retrain, explained, ready
from flows.comparison.contenders import ComparedRun, Contender, measured
from flows.comparison.figure import check_figure, write_figure
from flows.comparison.table import by_length, main_table, markdown, notes, rows
from flows.display.progress import shown_on, styled, terminal
from flows.runs.selection import Selection
from flows.runs.summary import RunSummary, new_run_id, read_summary
from flows.settings import Settings, allow_code_of_its_owner
from nmt_core.errors import BudgetError, NmtError, PreemptedError
from nmt_core.stages.table import plan

Form = Literal["table", "markdown", "json"]


class ComparisonError(NmtError):
    """Some of the recipes did not come to their end."""


def compare(contenders: Sequence[Contender], *, form: Form, figure: Path | None, debug: bool) -> None:
    """Run all, whatever becomes of one of them, and show what came of it, also where a signal ended it.

    Args:
        contenders: what to run, in this order.
        form: how to print the table; in any but the first, progress goes to stderr.
        figure: where to draw BLEU by the length of the source; None: nowhere.
        debug: show tracebacks.

    Raises:
        ComparisonError: a run failed.
        ConfigError: the figure cannot be drawn.
        DataError: the figure cannot be written.
        PreemptedError: the machines were taken away.
        Stopped: a signal came.
    """
    if figure:
        check_figure(figure, len({contender.label for contender in contenders}))
    allow_code_of_its_owner()
    settings = Settings.load()
    settings.prepare(debug=debug)
    console = terminal(to_stderr=form != "table")
    runs: list[ComparedRun] = []
    try:
        with interruptible(), ready(settings) as retrain:
            for number, contender in enumerate(contenders, start=1):
                seed = contender.config.train.seed
                heading = (f"{number} of {len(contenders)}: {contender.label}", "bold")
                console.print(styled(heading, f", seed {seed}"))
                runs.append(_run(contender, retrain, settings, console, debug=debug))
    except Stopped:
        console.print("What was finished is kept: the same command goes on from there.")
        raise
    finally:
        if runs:
            show(runs, form)
        if figure and runs:
            is_drawn = write_figure(rows(runs), figure)
            told = f"figure: {figure}" if is_drawn else "No run was evaluated: there is no figure."
            console.print(told, soft_wrap=True)
    if failed := [f"{run.recipe} (seed {run.seed})" for run in runs if run.status != "finished"]:
        raise ComparisonError(
            f"{len(failed)} of {len(runs)} runs failed, as told above: {', '.join(failed)}: mend what each says, then "
            "run the same command again; what is made is reused"
        )


def _run(contender: Contender, retrain: Retrain, settings: Settings, console: Console, *, debug: bool) -> ComparedRun:
    """One training, up to its scores. A failure is told, and is part of the result."""
    config = contender.config
    run_id = new_run_id(config.name)
    try:
        plan(config, settings.store)
        with shown_on(console):
            return measured(contender, retrain(config, Selection(last="evaluate"), run_id))
    except Exception as error:
        if isinstance(error, PreemptedError) and not isinstance(error, BudgetError):  # a budget is one run's alone
            raise
        if debug:
            traceback.print_exc()
        reason = explained(error, settings, run_id)
        console.print(f"{contender.label} failed: {reason}", style="red", soft_wrap=True)
        summary = read_summary(settings.runs, run_id) or RunSummary.begin(config, run_id)
        summary.end(reason)
        summary.write(settings.runs)
        return measured(contender, summary)


def show(runs: Sequence[ComparedRun], form: Form) -> None:
    """Print the tables of some runs to stdout."""
    table = rows(runs)
    if form == "json":
        print(json.dumps([row.model_dump(mode="json") for row in table]), flush=True)
    elif form == "markdown":
        print(markdown(table), flush=True)
    else:
        console = terminal(to_stderr=False)
        for lines in filter(None, (main_table(table), by_length(table))):
            console.print(_on_a_terminal(lines))
        for note in notes(table):
            console.print(note, style="dim", soft_wrap=True)


def _on_a_terminal(lines: Sequence[Sequence[str]]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, heading in enumerate(lines[0]):
        shown.add_column(heading, justify="right" if place else "left", overflow="fold")
    for line in lines[1:]:
        shown.add_row(*line)
    return shown
