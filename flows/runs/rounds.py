"""Rounds of a run: the trainings before its own. Each is a run of its own, and its model teaches the next one."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from flows.runs.cost import part_costs
from flows.runs.selection import STEPS, Selection
from flows.runs.summary import RoundModel, RunSummary
from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.recipes.rounds import trainings
from nmt_core.store.artifacts import REPORT


class Rounds:
    """Trainings of a run, in order. A run without rounds has one.

    Args:
        config: Recipe.
        selection: Steps of the run. If they end before `synthesise`, no other model is needed.
        note: Receives a line at the begin of each training.

    Raises:
        ConfigError: The recipe lacks a selected stage, or the recipe of the other direction is wrong.
    """

    def __init__(self, config: PipelineConfig, selection: Selection, note: Callable[[str], None]) -> None:
        selection.check(config)
        needs_teachers = STEPS.index(selection.last) >= STEPS.index("synthesise")
        *self._earlier, self._last = trainings(config)[0 if needs_teachers else -1 :]
        self._count = config.rounds.count
        self._note = note
        self._teacher = ""
        self._rows: list[RoundModel] = []

    def earlier(self) -> Iterator[PipelineConfig]:
        """Yield the recipe of each training before the last one. Pass its summary to `add` before the next one."""
        for training in self._earlier:
            self._note(f"Round {training.round} of {self._count}, {training.direction}")
            yield training.taught_by(self._teacher)
        if self._earlier:
            self._note(f"Round {self._last.round} of {self._count}, {self._last.direction}")

    def add(self, summary: RunSummary) -> None:
        """Take the model of a training as the teacher of the next one.

        Raises:
            StageError: The run has exported no model.
        """
        training = self._earlier[len(self._rows)]
        exported = [row.artifact for row in summary.stages if row.name == "export" and row.artifact]
        if not exported:
            raise StageError(f"run {summary.run_id} has exported no model to teach the next one: look at its report")
        self._teacher = exported[0]
        self._rows.append(_row(training.round, training.direction, summary))

    @property
    def config(self) -> PipelineConfig:
        """Recipe of the last training, the run's own, with its teacher."""
        return self._last.taught_by(self._teacher) if self._earlier else self._last.config

    @contextmanager
    def recorded_in(self, summary: RunSummary) -> Iterator[None]:
        """Enter the models of all trainings into the summary of the run, however its own training ends."""
        if not self._earlier:
            yield
            return
        summary.rounds = [*self._rows, self._own(summary)]
        try:
            yield
        finally:
            summary.rounds = [*self._rows, self._own(summary)]

    def _own(self, summary: RunSummary) -> RoundModel:
        return _row(self._last.round, self._last.direction, summary)


def _row(number: int, direction: str, summary: RunSummary) -> RoundModel:
    model = summary.model
    return RoundModel(
        round=number,
        direction=direction,
        run_id=summary.run_id,
        model=model.uri if model else "",
        verdict=model.verdict if model else "",
        scores=summary.metrics,
        seconds=summary.seconds,
        costs=part_costs(_report(summary, "train"), _report(summary, "synthesise")),
    )


def _report(summary: RunSummary, stage: str) -> dict[str, Any] | None:
    """Return the report of a stage, or None if the run has no such artifact."""
    row = summary.stage(stage)
    if not row or not row.artifact:
        return None
    with suppress(OSError):
        found: dict[str, Any] = json.loads((Path(row.artifact) / REPORT).read_text(encoding="utf-8"))
        return found
    return None
