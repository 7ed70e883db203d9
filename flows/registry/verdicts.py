"""Rendering of a verdict as Markdown and as a terminal table, and its storage with the model version."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flows.display import markdown as markdown_of
from nmt_core.evaluate.verdict import Check, Verdict, interval, number, percent

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient
    from rich.table import Table

MARKDOWN = "verdict.md"
JSON = "verdict.json"

_REASON_TAG = "nmt.verdict"
_WHOLE_TAG = "nmt.verdict.json"
_LONGEST_TAG = 90_000  # characters; MLflow takes 100,000
_FROM_MODEL = "models:/"  # prefix of a version's source if it was logged as a model


def rows(verdict: Verdict) -> list[list[str]]:
    """Return a row for each check: its name, its result, and its numbers, which are empty if it has none."""
    return [
        [
            check.name,
            "passed" if check.passed else "FAILED",
            _number(check.champion),
            _number(check.challenger),
            _number(check.difference, "+"),
            _interval(check),
            "" if check.p_value is None else f"{check.p_value:.3f}",
        ]
        for check in verdict.checks
    ]


def heading(verdict: Verdict) -> str:
    """Return the verdict in one line."""
    return f"{verdict.model_name} version {verdict.challenger} {verdict.reason}"


def markdown(verdict: Verdict) -> str:
    """Return the verdict, the table of its checks, and the finding of each check."""
    lines = [f"# {markdown_of.plain(heading(verdict))}", ""]
    if verdict.checks:
        lines.append(markdown_of.table(columns(verdict), rows(verdict)))
        plain = markdown_of.plain
        lines += ["", *(f"- {_sign(check)} **{plain(check.name)}**: {plain(check.why)}." for check in verdict.checks)]
    return "\n".join(lines) + "\n"


def table(verdict: Verdict) -> "Table":
    """Return the table of checks for a terminal."""
    from rich.text import Text

    from flows.display.tables import terminal_table

    headings = columns(verdict)
    shown = terminal_table(headings, headings[2:], folded=headings[:1])
    for row, check in zip(rows(verdict), verdict.checks, strict=True):
        shown.add_row(*map(Text, row), style="" if check.passed else "bold red")
    return shown


def keep(client: "MlflowClient", version: "ModelVersion", verdict: Verdict) -> None:
    """Store the verdict with the version, as tags and as files of its model.

    Raises:
        MlflowException: MLflow does not answer, or refuses.
    """
    tags = {_REASON_TAG: verdict.reason, _WHOLE_TAG: verdict.model_dump_json()}
    for tag, value in tags.items():
        client.set_model_version_tag(version.name, version.version, tag, value[:_LONGEST_TAG])
    if str(version.source).startswith(_FROM_MODEL):
        with tempfile.TemporaryDirectory(prefix="nmt-verdict-") as folder:
            Path(folder, MARKDOWN).write_text(markdown(verdict), encoding="utf-8")
            Path(folder, JSON).write_text(verdict.model_dump_json(indent=1), encoding="utf-8")
            client.log_model_artifacts(str(version.source).removeprefix(_FROM_MODEL), folder)


def kept(version: "ModelVersion") -> Verdict:
    """Return the stored verdict of a version. It has no checks if no gate has judged the version."""
    text = version.tags.get(_WHOLE_TAG, "")
    if text and len(text) < _LONGEST_TAG:
        return Verdict.model_validate_json(text)
    number = str(version.version)
    return Verdict(model_name=version.name, challenger=number, promoted=False, reason="was not judged")


def _number(value: float | None, sign: str = "") -> str:
    if value is None:
        return ""
    return f"{value + 0.0:{sign}.0f}" if value == int(value) else number(value, sign)  # -0.0 + 0.0 is 0.0


def _interval(check: Check) -> str:
    return "" if check.low is None or check.high is None else interval(check.low, check.high)


def columns(verdict: Verdict) -> list[str]:
    """Return the titles of the columns of `rows`."""
    levels = dict.fromkeys(percent(check.level) for check in verdict.checks if check.low is not None)
    title = " or ".join(levels) or "95%"
    return ["Check", "Result", "Champion", "Challenger", "Difference", f"{title} interval", "p"]


def _sign(check: Check) -> str:
    return "passed:" if check.passed else "FAILED:"
