"""`nmt compare`: run several recipes one after the other, and print one table."""

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import AsJson, Debug, Overrides, Quiet, Verbose, detail_of
from flows.cli.interruption import Stopped, interruptible
from flows.runs.selection import Selection
from nmt_core.errors import BudgetError, ConfigError, NmtError, PreemptedError, counted
from nmt_core.evaluate.examples import Choice

if TYPE_CHECKING:
    from rich.console import Console

    from flows.cli.in_process import Retrain
    from flows.comparison.contenders import ComparedRun, Contender
    from flows.comparison.printing import Form
    from flows.display.progress import Detail
    from flows.settings import Settings


class ComparisonError(NmtError):
    """Failure of at least one run of a comparison."""


def compare(
    recipes: Annotated[
        list[str],
        typer.Argument(help="Recipes to compare. Changes to one recipe follow its name: RECIPE+SECTION.KEY=VALUE."),
    ],
    overrides: Overrides = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of trainings of each recipe, with consecutive seeds from its train.seed.")
    ] = 1,
    corpus_of: Annotated[
        str,
        typer.Option(metavar="RECIPE", help="Recipe whose corpus, cleaning, tokenizer and encoding are used for all."),
    ] = "",
    as_json: AsJson = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table as Markdown; progress goes to stderr.")
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Write a figure of BLEU by source length, with one curve per recipe."),
    ] = None,
    pareto: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg",
            help="Measure quality, speed and size of each model, precision and beam on this CPU, print a table and "
            "write a figure.",
        ),
    ] = None,
    examples: Annotated[
        Choice | None,
        typer.Option(
            help="Print sentences of the main test set with their translations by each recipe, and by its other "
            "systems: the longest sentences, random ones, or the worst ones of the first recipe.",
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    debug: Debug = False,
) -> None:
    """Run several recipes up to `evaluate`, and print one table. Artifacts that they share are made once.

    --set changes all recipes. Changes to one recipe take precedence.
    """
    from flows.comparison.contenders import contenders
    from flows.comparison.figure import check_figure

    if examples and as_json:
        raise ConfigError("--examples has no JSON: leave out --json, or read TEST-SET.sentences.parquet of `evaluate`")
    detail = detail_of(quiet=quiet, verbose=verbose)
    compared = contenders(recipes, overrides or [], seeds, corpus_of or None, debug=debug)
    figures = {option: file for option, file in (("--figure", figure), ("--pareto", pareto)) if file}
    for option, file in figures.items():
        check_figure(file, len({contender.label for contender in compared}), option)
    form: Form = "json" if as_json else "markdown" if markdown else "table"
    _compare(compared, form=form, figures=figures, examples=examples, detail=detail, debug=debug)


def _compare(
    contenders: "Sequence[Contender]",
    *,
    form: "Form",
    figures: Mapping[str, Path],
    examples: Choice | None,
    detail: "Detail",
    debug: bool,
) -> None:
    """Run all contenders, even if some fail, and show the results. A signal ends it early and still shows them.

    Args:
        contenders: trainings to run, in this order.
        form: form of the printed result. Unless it is a table, progress goes to stderr.
        figures: file for each figure, by the option that names it.
        examples: rule for the choice of sentences to print. None prints none.
        detail: what to show of each run.
        debug: show tracebacks.

    Raises:
        ComparisonError: a run failed.
        DataError: the figure cannot be written.
        PreemptedError: the machine was preempted.
        Stopped: a signal arrived.
    """
    from flows.cli.in_process import ready
    from flows.display.progress import shown_on, styled, terminal
    from flows.settings import Settings, allow_code_of_its_owner

    allow_code_of_its_owner()
    settings = Settings.load()
    settings.prepare(debug=debug)
    console = terminal(to_stderr=form != "table" or detail == "quiet")
    runs: list[ComparedRun] = []
    try:
        with interruptible(), ready(settings) as retrain:
            for number, contender in enumerate(contenders, start=1):
                heading = (f"{number} of {len(contenders)}: {contender.label}", "bold")
                if detail != "quiet":
                    console.print(styled(heading, f", seed {contender.config.train.seed}"))
                with shown_on(console, detail):
                    runs.append(_run(contender, retrain, settings, console, debug=debug))
            if "--pareto" in figures:
                runs = _with_points(runs, contenders, settings, console)
    except Stopped:
        console.print("Finished stages are kept: repeat the command to resume.")
        raise
    finally:
        if runs:
            _show(runs, form, figures, console)
            if examples:
                _show_examples(runs, examples, form, settings)
    if failed := [f"{run.recipe} (seed {run.seed})" for run in runs if run.status != "finished"]:
        raise ComparisonError(
            f"{len(failed)} of {counted(len(runs), 'run')} failed, for the reasons above: {', '.join(failed)}: fix "
            "them, then repeat the command; finished stages are reused"
        )


def _run(
    contender: "Contender", retrain: "Retrain", settings: "Settings", console: "Console", *, debug: bool
) -> "ComparedRun":
    """Run one training up to its scores. A failure is printed and becomes part of the result.

    Raises:
        PreemptedError: the machine was preempted.
    """
    from flows.cli.in_process import explained
    from flows.comparison.contenders import measured
    from flows.runs.summary import RunSummary, new_run_id, read_summary
    from nmt_core.stages.table import plan

    config = contender.config
    run_id = new_run_id(config.name)
    try:
        plan(config, settings.store)
        return measured(contender, retrain(config, Selection(last="evaluate"), run_id))
    except Exception as error:
        if isinstance(error, PreemptedError) and not isinstance(error, BudgetError):  # a budget limits one run only
            raise
        if debug:
            traceback.print_exc()
        reason = explained(error, settings, run_id)
        console.print(f"{contender.label} failed: {reason}", style="red", soft_wrap=True)
        summary = read_summary(settings.runs, run_id) or RunSummary.begin(config, run_id)
        summary.end(reason)
        summary.write(settings.runs)
        return measured(contender, summary)


def _with_points(
    runs: "Sequence[ComparedRun]", contenders: "Sequence[Contender]", settings: "Settings", console: "Console"
) -> "list[ComparedRun]":
    """Return the runs, the first one of each recipe with quality, speed and size of its model."""
    from flows.comparison.contenders import with_points
    from flows.runs.summary import read_summary

    found, measured = list(runs), set[str]()
    for number, (run, contender) in enumerate(zip(runs, contenders, strict=True)):
        summary = read_summary(settings.runs, run.run_id)
        if run.status == "finished" and summary and run.recipe not in measured:
            console.print(f"Measuring quality, speed and size of {run.recipe}", soft_wrap=True)
            found[number] = with_points(run, contender, summary)
            measured.add(run.recipe)
    return found


def _show_examples(runs: "Sequence[ComparedRun]", choice: Choice, form: "Form", settings: "Settings") -> None:
    """Print sentences side by side to stdout."""
    from flows.comparison.examples import as_markdown, find_examples, on_a_terminal
    from flows.display.progress import terminal

    found = find_examples(runs, settings, choice)
    if form == "markdown":
        print(as_markdown(found), flush=True)
        return
    console = terminal(to_stderr=False)
    for line in on_a_terminal(found):
        console.print(line, soft_wrap=True)


def _show(runs: "Sequence[ComparedRun]", form: "Form", figures: Mapping[str, Path], console: "Console") -> None:
    """Print the tables to stdout, and write the figures that were requested."""
    from flows.comparison.figure import length_figure, write_figure
    from flows.comparison.pareto_figure import pareto_figure
    from flows.comparison.printing import print_comparison
    from flows.comparison.table import points_of, rows

    print_comparison(runs, form)
    table = rows(runs)
    for option, file in figures.items():
        drawing = length_figure(table) if option == "--figure" else pareto_figure(points_of(table))
        is_drawn = write_figure(drawing, file, option)
        message = f"figure: {file}" if is_drawn else "No figure was written, because no run was evaluated."
        console.print(message, soft_wrap=True)
