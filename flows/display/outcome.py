"""Outcome of steps and runs in words: the same on a terminal, in the log of a run and in its state."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from flows.display.markdown import code, in_mlflow, link, plain, table
from flows.display.progress import styled
from flows.runs.changes import in_words
from flows.runs.selection import REGISTER
from flows.runs.summary import RegisteredModel, RunSummary, Score, StageSummary
from flows.settings import RunningServers
from flows.tracking.describing import verdict_of
from flows.tracking.pages import version_page
from nmt_core.errors import counted, without_password


def step_line(row: StageSummary) -> str:
    """Return what a finished step did, such as `clean: 30,000 pairs in, 28,514 pairs out, 3.1 s`."""
    action = "reused" if row.reused else f"{row.seconds:.1f} s"
    if row.name == REGISTER:
        return f"{row.name}: {action}"
    return f"{row.name}: {row.items_in:,} in, {_out(row)} out, {action}"


def score_line(score: Score) -> Text:
    """Return a score with its interval, its test set and its signature."""
    interval = "" if score.low is None else f" ({score.low:.2f} to {score.high:.2f})"
    number = (f"{score.score:.2f}", "bold")
    return styled(f"{score.metric} ", number, f"{interval} on {score.test_set}  ({score.signature})")


def model_line(model: RegisteredModel) -> Text:
    """Return a registered model with its aliases and the gate's verdict."""
    name, version = (model.name, "bold"), (model.version, "bold")
    return styled("Model ", name, " version ", version, f" ({', '.join(model.aliases)}): {model.verdict}")


def outcome(summary: RunSummary) -> str:
    """Return the result of a run in a few words, such as `BLEU 31.2, champion`."""
    parts = [f"{score.metric} {score.score:.1f}" for score in summary.metrics[:1]]
    if model := summary.model:
        parts.append(model.alias or f"version {model.version} of {model.name}")
    if not parts and summary.stages:
        last = summary.stages[-1]
        parts.append(_out(last))
    if summary.stages and all(row.reused for row in summary.stages):
        parts.append("reused" if len(summary.stages) == 1 else "all stages reused")
    return ", ".join(parts)


def result_page(summary: RunSummary, mlflow_page: str, report: str) -> str:
    """Return the result of a run as Markdown: scores, verdict, champion, and what each stage did.

    Args:
        summary: Summary of the run.
        mlflow_page: Address of the run in MLflow. Empty means that no server shows it.
        report: Address of the report.
    """
    parts = [f"# {plain(f'{summary.recipe}: {outcome(summary)}')}"]
    if summary.metrics:
        rows = [(score.metric, f"{score.score:.2f}", _interval(score), score.test_set) for score in summary.metrics]
        parts.append(table(("Score", "Value", "95% interval", "Test set"), rows))
    if model := summary.model:
        parts.append(f"Verdict: {plain(model.verdict)}")
        parts.append(f"Champion: {_champion(summary, model)}")
    rows_of_stages = [
        (row.name, "reused" if row.reused else "done", f"{row.seconds:,.1f} s", *_counts(row)) for row in summary.stages
    ]
    parts.append(table(("Stage", "", "Time", "In", "Out"), rows_of_stages))
    parts.append(f"[Report]({report})" + (f", [run in MLflow]({mlflow_page})" if mlflow_page else ""))
    return "\n\n".join(parts) + "\n"


def mlflow_note(summary: RunSummary, changes: Mapping[str, Any], pages: RunningServers) -> str:
    """Return the description of a run in MLflow: what it is, what was changed, and links to what belongs to it.

    Args:
        summary: Summary of the run.
        changes: Options that differ from its recipe.
        pages: Addresses of the servers' pages.
    """
    lines = [in_mlflow(summary.description)]
    if changes:
        lines.append(f"Changed against the recipe: {code(without_password(in_words(changes)))}")
    if model := summary.model:
        page = version_page(pages.mlflow, model.name, model.version) if pages.mlflow else model.uri
        about = in_mlflow(f"{model.name} version {model.version}, {verdict_of(model)}")
        lines.append(f"Model {about}: {link(page)}")
    if page := pages.flow_run(summary.prefect_flow_run_id):
        lines.append(f"In Prefect: {link(page)}")
    return "\n\n".join(filter(None, lines))


def _champion(summary: RunSummary, model: RegisteredModel) -> str:
    before = f"version {plain(summary.champion.version)}" if summary.champion else ""
    own = f"version {plain(model.version)}, the model of this run"
    if "champion" in model.aliases:
        return f"{own}, in place of {before}" if before else own
    return f"{before or 'none'}. The model of this run is version {plain(model.version)}"


def _interval(score: Score) -> str:
    return "" if score.low is None or score.high is None else f"{score.low:.2f} to {score.high:.2f}"


def _counts(row: StageSummary) -> tuple[str, str]:
    return ("", "") if row.name == REGISTER else (f"{row.items_in:,}", _out(row))


def _out(row: StageSummary) -> str:
    """Return the number of items that a stage made, such as `1 checkpoint`. Units are plural nouns."""
    return counted(row.items_out, row.unit.removesuffix("s"), row.unit)
