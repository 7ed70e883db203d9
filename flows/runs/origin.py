"""What a stage that runs by itself begins with: the artifacts of an earlier run, and the configuration of that run.

One artifact is chosen: that of the last stage before it. All others that it reads are those which that one was made
from, so that no text meets the vocabulary of another.
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
    """Where a stage begins."""

    config: PipelineConfig
    """Of the run that made the artifacts; the recipe's own, if there is none."""
    artifacts: tuple[Artifact, ...] = ()
    """The artifact that was asked for, and all that it was made from; some may be in the shared store alone."""
    run: RunSummary | None = None
    """The newest run that made or reused the artifact; None: the store has it, and no run here knows of it."""


def producer_of(step: StepName) -> StepName | None:
    """The stage whose artifact decides all that a step reads; None for the first."""
    needs = _OF_REGISTER if step == REGISTER else STAGES[step].needs
    return max((name for name in STEPS if name in needs), key=STEPS.index, default=None)


def find_origin(step: StepName, asked: str, recipe: PipelineConfig, settings: Settings) -> Origin:
    """Find what a step is asked to begin with.

    Args:
        step: the stage, or `register`.
        asked: `latest`, for what the newest run of the recipe made; the id of a run; or the name of an artifact, as
            `Store.resolve` takes it.
        recipe: the recipe by itself.
        settings: of this machine.

    Raises:
        StageError: there is no such run or artifact.
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
        raise StageError(f"input={asked!r} is no run in {settings.runs}, and no artifact: {error}") from None
    if artifact.stage != producer:
        raise StageError(f"input={asked!r}: {step} begins with what {producer} made, not {artifact.stage}")
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
    raise StageError(f"{whose} has made nothing with {producer} that is still in {settings.store.root}: run that first")


def _row(run: RunSummary, producer: StepName) -> StageSummary | None:
    row = run.stage(producer)
    return row if row and row.status in _MADE else None
