"""Output at the end of a run: a table of its stages, scores, the registered model, samples and next steps."""

import os
import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from flows.display import forecasts, outcome
from flows.display.tables import terminal_table
from flows.registry import verdicts
from flows.runs.summary import PAGE, SUMMARY, RunSummary, Sample
from flows.settings import Settings
from nmt_core.config.budget import SECONDS_PER_HOUR

_WIDTH_WITH_FORECAST = 90  # a narrower terminal has no room for another column; the line below the table has the sum


def show(summary: RunSummary, console: Console, typed: Sequence[str] = ()) -> None:
    """Print the result of a run, and commands to try next.

    Args:
        summary: summary of the run.
        console: console to print to.
        typed: the recipe and its `--set` options as the user typed them. Empty means the name of the recipe.
    """
    console.print(_nothing_new(summary) or _table(summary, with_forecast=console.width >= _WIDTH_WITH_FORECAST))
    if summary.metrics and "TOY" in summary.description.split():
        console.print("A TOY: its score says nothing about real text.", style="bold yellow")
    for score in summary.metrics:
        console.print(outcome.score_line(score))
    for line in summary.not_published:
        console.print(line)
    for row in summary.rounds:
        console.print(row.line)
    if model := summary.model:
        console.print(outcome.model_line(model))
        if model.gate and model.gate.checks:
            console.print(verdicts.table(model.gate))
    for sample in summary.samples:
        console.print(f"  {sample.source}\n    -> {sample.translation}")
        if sample.reference:
            console.print(f"       {sample.reference} (reference)", style="dim")
    folder = Settings.load().runs / summary.run_id
    files = f"summary: {os.path.relpath(folder / SUMMARY)}"
    files += f"; report: {os.path.relpath(folder / PAGE)}" if (folder / PAGE).is_file() else ""
    if line := forecasts.compared(summary):
        console.print(line, soft_wrap=True)
    console.print(f"{summary.seconds:.1f} s; {_cost(summary)}{files}", style="dim", soft_wrap=True)
    _next_steps(summary, console, typed or [summary.recipe])


def _cost(summary: RunSummary) -> str:
    """Return the CPU and GPU hours of a run, and its price if prices are set."""
    cost = summary.cost
    text = f"{cost.cpu_seconds / SECONDS_PER_HOUR:.3f} CPU hours, "
    text += f"{cost.gpu_seconds / SECONDS_PER_HOUR:.3f} GPU hours, " if cost.gpu_seconds else ""
    return text + (f"{cost.money:.3g} {summary.currency}, " if cost.money is not None else "")


def _nothing_new(summary: RunSummary) -> str | None:
    """Return one line about a run that reused everything, or None if it did anything."""
    if summary.status != "finished" or not all(row.reused for row in summary.stages):
        return None
    return f"{summary.recipe}: nothing new: all {len(summary.stages)} stages are reused"


def _table(summary: RunSummary, *, with_forecast: bool) -> Table:
    foreseen = {one.name: one.seconds for one in summary.forecast if with_forecast}
    headings = ("stage", "", "seconds", *(["forecast"] if foreseen else []), "in", "out", "unit", "artifact")
    numbers = {"seconds", "forecast", "in", "out"}
    table = terminal_table(headings, numbers, title=f"{summary.recipe}: {summary.status}")
    for row in summary.stages:
        is_model = row.artifact.startswith("models:")
        label = f"version {row.artifact.rpartition('/')[2]}" if is_model else row.fingerprint[:12]
        action = "run" if row.status == "done" else row.status
        counts = (f"{row.items_in:,}", f"{row.items_out:,}") if row.status in {"done", "reused"} else ("", "")
        span = foreseen.get(row.name)
        forecast = [f"{span.likely:.1f}" if span else ""] if foreseen else []
        seconds = f"{row.seconds:.1f}"
        table.add_row(row.name, action, seconds, *forecast, *counts, row.unit, label if row.artifact else "")
    return table


def _next_steps(summary: RunSummary, console: Console, typed: Sequence[str]) -> None:
    if not summary.model:
        return
    sample = summary.samples[-1] if summary.samples else Sample(source="A sentence.", translation="")
    to = f" --to {sample.pair.split('-')[1]}" if sample.pair else ""
    console.print("Next:", style="bold")
    model = summary.model
    address = f"models:/{model.name}@{model.alias}" if model.alias else model.uri
    lines = (
        f"  echo {shlex.quote(sample.source)} | nmt translate --model {address}{to}",
        f"  nmt plan {shlex.join(typed)} --set search.beam_size=8      # what would run again, and why",
        "  nmt artifacts ls",
        "  nmt up      # Prefect and MLflow in the browser",
    )
    console.print("\n".join(lines), soft_wrap=True)
