"""`nmt compare`: several recipes, one after the other, and one table."""

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import AsJson, Debug, Overrides
from flows.cli.interruption import Stopped, interruptible
from flows.runs.selection import Selection
from nmt_core.errors import BudgetError, NmtError, PreemptedError

if TYPE_CHECKING:
    from rich.console import Console

    from flows.cli.in_process import Retrain
    from flows.comparison.contenders import ComparedRun, Contender
    from flows.comparison.printing import Form
    from flows.settings import Settings


class ComparisonError(NmtError):
    """Some of the recipes did not come to their end."""


def compare(
    recipes: Annotated[
        list[str], typer.Argument(help="Recipes, each with changes of its own if wanted: RECIPE+SECTION.KEY=VALUE.")
    ],
    overrides: Overrides = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each, with seeds from its train.seed on.")] = 1,
    corpus_of: Annotated[
        str, typer.Option(metavar="RECIPE", help="Where all take text, cleaning, tokenizer and encoding from.")
    ] = "",
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw BLEU by the length of the source there, a curve for each recipe."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Run several recipes up to `evaluate`, and print one table. What they have in common is made once.

    --set changes all of them; what a recipe changes itself goes before it.
    """
    from flows.comparison.contenders import contenders
    from flows.comparison.figure import check_figure

    compared = contenders(recipes, overrides or [], seeds, corpus_of, debug=debug)
    if figure:
        check_figure(figure, len({contender.label for contender in compared}))
    _compare(compared, form="json" if as_json else "markdown" if markdown else "table", figure=figure, debug=debug)


def _compare(contenders: "Sequence[Contender]", *, form: "Form", figure: Path | None, debug: bool) -> None:
    """Run all, whatever becomes of one of them, and show what came of it, also where a signal ended it.

    Args:
        contenders: what to run, in this order.
        form: how to print the table; in any but the first, progress goes to stderr.
        figure: where to draw BLEU by the length of the source; None: nowhere.
        debug: show tracebacks.

    Raises:
        ComparisonError: a run failed.
        DataError: the figure cannot be written.
        PreemptedError: the machines were taken away.
        Stopped: a signal came.
    """
    from flows.cli.in_process import ready
    from flows.display.progress import styled, terminal
    from flows.settings import Settings, allow_code_of_its_owner

    allow_code_of_its_owner()
    settings = Settings.load()
    settings.prepare(debug=debug)
    console = terminal(to_stderr=form != "table")
    runs: list[ComparedRun] = []
    try:
        with interruptible(), ready(settings) as retrain:
            for number, contender in enumerate(contenders, start=1):
                heading = (f"{number} of {len(contenders)}: {contender.label}", "bold")
                console.print(styled(heading, f", seed {contender.config.train.seed}"))
                runs.append(_run(contender, retrain, settings, console, debug=debug))
    except Stopped:
        console.print("What was finished is kept: the same command goes on from there.")
        raise
    finally:
        if runs:
            _show(runs, form, figure, console)
    if failed := [f"{run.recipe} (seed {run.seed})" for run in runs if run.status != "finished"]:
        raise ComparisonError(
            f"{len(failed)} of {len(runs)} runs failed, as told above: {', '.join(failed)}: mend what each says, then "
            "run the same command again; what is made is reused"
        )


def _run(
    contender: "Contender", retrain: "Retrain", settings: "Settings", console: "Console", *, debug: bool
) -> "ComparedRun":
    """One training, up to its scores. A failure is told, and is part of the result."""
    from flows.cli.in_process import explained
    from flows.comparison.contenders import measured
    from flows.display.progress import shown_on
    from flows.runs.summary import RunSummary, new_run_id, read_summary
    from nmt_core.stages.table import plan

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


def _show(runs: "Sequence[ComparedRun]", form: "Form", figure: Path | None, console: "Console") -> None:
    """Print the tables to stdout, and draw the figure."""
    from flows.comparison.figure import write_figure
    from flows.comparison.printing import print_comparison
    from flows.comparison.table import rows

    print_comparison(runs, form)
    if figure:
        is_drawn = write_figure(rows(runs), figure)
        told = f"figure: {figure}" if is_drawn else "No run was evaluated: there is no figure."
        console.print(told, soft_wrap=True)
