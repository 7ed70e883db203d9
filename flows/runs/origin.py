"""Origin of a stage that runs alone: the artifacts of an earlier run, and the configuration of that run.

One artifact is chosen: the artifact of the last stage before it. The other inputs are the artifacts that it was made
from, so that a text is never combined with another vocabulary.
"""

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flows.runs.selection import REGISTER, STEPS, StepName
from flows.runs.summary import RunSummary, StageSummary, last_runs
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError, StageError
from nmt_core.stages.table import STAGES, makers_of_inputs
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


def producer_of(step: StepName, config: PipelineConfig | None = None) -> StepName | None:
    """Return the stage whose artifact determines all inputs of a step, or None for the first stage.

    Args:
        step: Stage, or `register`.
        config: Recipe. None means a recipe without optional stages.
    """
    if step == REGISTER:
        needs: Collection[str] = _OF_REGISTER
    else:
        needs = makers_of_inputs(STAGES[step], config).values() if config else STAGES[step].needs
    return max((name for name in STEPS if name in needs), key=STEPS.index, default=None)


def find_origin(step: StepName, requested: str, recipe: PipelineConfig, settings: Settings) -> Origin:
    """Find the artifacts that a step starts from.

    Args:
        step: Stage, or `register`.
        requested: `latest` for the newest run of the recipe, the id of a run, or the name of an artifact as
            `Store.resolve` accepts it.
        recipe: Recipe that supplies the configuration if no run does.
        settings: Settings of this machine.

    Raises:
        StageError: There is no such run or artifact.
    """
    producer = producer_of(step, recipe)
    if producer is None:
        return Origin(recipe)
    runs = last_runs(settings.runs, sys.maxsize)
    if named := [run for run in runs if requested in {run.run_id, run.prefect_flow_run_id}]:
        return _of_runs(named, step, f"run {requested}", settings)
    if requested == LATEST:
        own = [run for run in runs if run.recipe == recipe.name]
        return _of_runs(own, step, f"recipe {recipe.name}", settings)
    try:
        artifact = settings.store.resolve(requested if "/" in requested else f"{producer}/{requested}")
    except ArtifactError as error:
        raise StageError(f"input={requested!r}: neither a run in {settings.runs} nor an artifact: {error}") from None
    if artifact.stage not in _producers(step):
        raise StageError(
            f"input={requested!r}: {step} starts from an artifact of {producer}, not of {artifact.stage}: give another "
            "one"
        )
    makers = [run for run in runs if (row := _row(run, artifact.stage)) and row.fingerprint == artifact.fingerprint]
    config = PipelineConfig.model_validate(makers[0].config) if makers else recipe
    return Origin(config, tuple(settings.store.lineage(artifact)), makers[0] if makers else None)


def _of_runs(runs: Sequence[RunSummary], step: StepName, whose: str, settings: Settings) -> Origin:
    """Return the artifact of the newest of these runs that has one, by the recipe of each."""
    for run in runs:
        row = next((row for name in _producers(step) if (row := _row(run, name))), None)
        artifact = settings.store.find(row.name, row.fingerprint) if row else None
        if artifact:
            config = PipelineConfig.model_validate(run.config)
            return Origin(config, tuple(settings.store.lineage(artifact)), run)
    producer = producer_of(step)
    raise StageError(f"{whose} has no artifact of {producer} in {settings.store.root}: run {producer} first")


def _producers(step: StepName) -> list[str]:
    """Return the stages that may determine all inputs of a step, the one that replaces another first."""
    producer = producer_of(step)
    replacing = [name for name, stage in STAGES.items() if stage.replaces == producer and name != step]
    return [*replacing, *([producer] if producer else [])]


def _row(run: RunSummary, producer: str) -> StageSummary | None:
    row = run.stage(producer)
    return row if row and row.status in _MADE else None
