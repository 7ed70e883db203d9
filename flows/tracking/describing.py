"""Names, tags and descriptions of MLflow runs, by which people read a table of runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from flows.runs.changes import in_parentheses, in_short
from flows.runs.selection import REGISTER, Selection
from flows.runs.summary import RegisteredModel, Score
from flows.tracking.pages import HEADLINES
from nmt_core.stages.table import first_reader

STAGE_TAG = "nmt.stage"
"""Tag with the stage that a child run executed. Its name also has what was changed."""
REUSED_TAG = "nmt.reused"
"""Tag of a run with the stages that it reused, which have no child run."""


def run_name(selection: Selection, recipe: str, started: datetime) -> str:
    """Return the name of a run, such as `retrain quickstart 02:39`, in the time zone of this machine."""
    return f"{_what(selection)} {recipe} {started.astimezone():%H:%M}"


def kind_of(selection: Selection) -> str:
    """Return the kind of a run: `retrain`, or `single stage`."""
    return "retrain" if _what(selection) == "retrain" else "single stage"


def _what(selection: Selection) -> str:
    return selection.first if selection.first == selection.last else "retrain"


def stage_name(stage: str, changes: Mapping[str, Any]) -> str:
    """Return the name of the run of a stage, with the options of its own that were changed: `clean (max_words=12)`."""
    own = [in_short(key.rpartition(".")[2], value) for key, value in changes.items() if _first_reads(stage, key)]
    return f"{stage}{in_parentheses(own)}"


def _first_reads(stage: str, key: str) -> bool:
    """Return True if an option belongs to a stage. Options of the registry belong to `register`."""
    section = key.partition(".")[0]
    return (REGISTER if section == "registry" else first_reader(section)) == stage


def headlines(scores: Sequence[Score]) -> dict[str, float]:
    """Return the scores on the main test set that are columns of the table of runs."""
    return {name: score.score for name in HEADLINES for score in reversed(scores) if score.metric == name}


def verdict_of(model: RegisteredModel) -> str:
    """Return the verdict on a model in one line: its most important alias, and the reason."""
    return f"{model.alias or 'no alias'}: {model.verdict}"
