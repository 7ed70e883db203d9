"""Report page: `report.html` in the run's folder and in MLflow, with a link in Prefect."""

import logging
import re
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from flows.display.reports import money
from flows.html_report import attention, data, differences, operation, quality, systems, training
from flows.html_report.blocks import Run, Section, Text, duration
from flows.html_report.svg import DARK, LIGHT, RULES
from flows.runs.summary import PAGE, RunSummary
from flows.settings import Settings
from nmt_core.config.budget import SECONDS_PER_HOUR
from nmt_core.errors import NmtError
from nmt_core.pages.page import render_page
from nmt_core.store.atomic import write_atomically

_SECTIONS = (
    quality.verdict,
    differences.changes,
    quality.scores,
    systems.systems,
    quality.rounds,
    quality.by_length,
    quality.translations,
    attention.attention,
    attention.positions,
    training.training,
    data.data,
    operation.speed_and_size,
    operation.cost,
    operation.reproduction,
)

_ONLY_IF = {quality.rounds: lambda run: bool(run.summary.rounds), systems.systems: systems.has_systems}
"""Condition of each section that not every run has."""

_NUMERIC = re.compile(r"[-+]?[0-9][0-9,.]*(%| (s|min|h|[kMGT]?B))?")

_log = logging.getLogger(__name__)


class Tile(BaseModel):
    """Key figure at the top of the page."""

    label: str
    value: str
    note: str = ""


def write_page(summary: RunSummary, settings: Settings) -> Path:
    """Write the report of a run and its complete recipe, and return the path of the report."""
    run = Run(summary, settings)
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / operation.RECIPE).write_text(operation.recipe_text(run.config), encoding="utf-8")
    file = run.folder / PAGE
    write_atomically(file, page(run))
    return file


def page(run: Run) -> str:
    """Return the page as self-contained HTML: it contains its style, script and drawings, and fetches nothing."""
    return render_page(
        "flows.html_report",
        _is_numeric,
        summary=run.summary,
        languages=run.config["languages"],
        tiles=_tiles(run.summary),
        sections=[_section(make, run) for make in _SECTIONS if _ONLY_IF.get(make, _always)(run)],
        drawings=f":root{{{LIGHT}}}@media screen and (prefers-color-scheme:dark){{:root{{{DARK}}}}}{RULES}",
    )


def _always(run: Run) -> bool:
    return True


def _is_numeric(text: str) -> bool:
    """Return True for a number, with or without a unit, which belongs to the right of its column."""
    return _NUMERIC.fullmatch(text) is not None


def _section(make: Callable[[Run], Section], run: Run) -> Section:
    """Make a section, or a section that says why it cannot be shown.

    An artifact of another version may lack figures. The other sections are shown anyway.
    """
    try:
        return make(run)
    except (KeyError, OSError, NmtError, ValueError) as error:
        _log.debug("a section of the report cannot be shown", exc_info=error)
        title = make.__name__.replace("_", " ").capitalize()
        return Section(title, [Text(f"This section cannot be shown: {type(error).__name__} {error}.")])


def _tiles(summary: RunSummary) -> list[Tile]:
    tiles = [
        Tile(
            label=f"{score.metric}, {score.test_set}",
            value=f"{score.score:.1f}",
            note="" if score.low is None or score.high is None else f"{score.low:.1f} to {score.high:.1f}",
        )
        for score in summary.metrics[:4]
    ]
    if model := summary.model:
        tiles.append(Tile(label="Model", value=f"version {model.version}", note=", ".join(model.aliases)))
    cost = summary.cost
    tiles.append(Tile(label="Time", value=duration(summary.seconds or cost.seconds)))
    hours = ("GPU hours", cost.gpu_seconds) if cost.gpu_seconds else ("CPU hours", cost.cpu_seconds)
    tiles.append(Tile(label=hours[0], value=f"{hours[1] / SECONDS_PER_HOUR:.2f}"))
    if cost.money is not None:
        tiles.append(Tile(label="Cost", value=money(cost.money), note=summary.currency))
    return tiles
