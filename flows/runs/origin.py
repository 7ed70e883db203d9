"""Origin of a stage that runs alone: the artifacts of an earlier run, and the configuration of that run.

One artifact is chosen: the artifact of the last stage before it. The other inputs are the artifacts that it was made
from, so that a text is never combined with another vocabulary.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from flows.runs.selection import REGISTER, STEPS, StepName
from flows.runs.summary import RunSummary, StageSummary, last_runs
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError, StageError
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact

LATEST = "latest"
_OF_REGISTER = ("export", "evaluate")
_MADE = {"done", "reused"}


@dataclass(frozen=True)
class Origin:
    """Configuration and artifacts that a stage starts from."""

    config: PipelineConfig
    """Configuration of the run that made the artifacts, or the recipe if there is no such run."""
    artifacts: tuple[Artifact, ...] = ()
    """Requested artifact, and all artifacts that it was made from. Some may be only in the shared store."""
    run: RunSummary | None = None
    """Newest run that made or reused the artifact. None if no run of this home did."""


def producer_of(step: StepName) -> StepName | None:
    """Return the stage whose artifact determines all inputs of a step, or None for the first stage."""
    needs = _OF_REGISTER if step == REGISTER else STAGES[step].needs
    return max((name for name in STEPS if name in needs), key=STEPS.index, default=None)


def find_origin(step: StepName, asked: str, recipe: PipelineConfig, settings: Settings) -> Origin:
    """Find the artifacts that a step starts from.

    Args:
        step: Stage, or `register`.
        asked: `latest` for the newest run of the recipe, the id of a run, or the name of an artifact as
            `Store.resolve` accepts it.
        recipe: Recipe that supplies the configuration if no run does.
        settings: Settings of this machine.

    Raises:
        StageError: There is no such run or artifact.
    """
    producer = producer_of(step)
    if producer is None:
        return Origin(recipe)
    runs = last_runs(settings.runs, sys.maxsize)
    if named := [run for run in runs if asked in {run.run_id, run.prefect_flow_run_id}]:
        return _of_runs(named, producer, f"run {asked}", settings)
    if asked == LATEST:
        own = [run for run in runs if run.recipe == recipe.name]
        return _of_runs(own, producer, f"recipe {recipe.name}", settings)
    try:
        artifact = settings.store.resolve(asked if "/" in asked else f"{producer}/{asked}")
    except ArtifactError as error:
        raise StageError(f"input={asked!r}: neither a run in {settings.runs} nor an artifact: {error}") from None
    if artifact.stage != producer:
        raise StageError(
            f"input={asked!r}: {step} starts from an artifact of {producer}, not of {artifact.stage}: give another one"
        )
    makers = [run for run in runs if (row := _row(run, producer)) and row.fingerprint == artifact.fingerprint]
    config = PipelineConfig.model_validate(makers[0].config) if makers else recipe
    return Origin(config, tuple(settings.store.lineage(artifact)), makers[0] if makers else None)


def _of_runs(runs: Sequence[RunSummary], producer: StepName, whose: str, settings: Settings) -> Origin:
    for run in runs:
        row = _row(run, producer)
        artifact = settings.store.find(producer, row.fingerprint) if row else None
        if artifact:
            config = PipelineConfig.model_validate(run.config)
            return Origin(config, tuple(settings.store.lineage(artifact)), run)
    raise StageError(f"{whose} has no artifact of {producer} in {settings.store.root}: run {producer} first")


def _row(run: RunSummary, producer: StepName) -> StageSummary | None:
    row = run.stage(producer)
    return row if row and row.status in _MADE else None
