"""Main flow, from corpora to a registered model."""

from prefect import flow

from flows.display.outcome import outcome
from flows.display.progress import current_display
from flows.retraining import Retraining
from flows.runs.endings import completed, ends_in_words
from flows.runs.rounds import Rounds
from flows.runs.run_names import name_of_retraining, unless_typed
from flows.runs.selection import Selection, StepName
from flows.runs.summary import RunSummary
from flows.servers.heartbeats import says_its_end
from nmt_core.config import PipelineConfig
from nmt_core.recipes.recipe import with_changes
from nmt_core.stages import STAGE_NAMES, StageName


@says_its_end
@flow(name="retrain", flow_run_name=unless_typed(name_of_retraining), persist_result=False, validate_parameters=False)
@ends_in_words
def retrain(
    *,
    from_: StepName = "download",
    until: StepName = "register",
    force: list[StageName] = [],  # noqa: B006  # Prefect's form shows the default; nothing changes it
    changes: str = "",
    config: PipelineConfig,
    run_id: str = "",
) -> RunSummary:
    """Retrain a translation model, from its corpora to a registered version.

    Args:
        from_: First stage to run. The artifacts of earlier stages must exist.
        until: Last stage to run.
        force: Stages to run again even if their artifacts exist.
        changes: Changes to the recipe for this run, as after --set: `train.max_updates=60`. Separate several by commas
            or line breaks. They replace the values below.
        config: Recipe to run.
        run_id: Name of the run's folder. Leave empty to derive it from the time and the recipe.
    """
    selection = Selection(from_, until, tuple(force))
    rounds = Rounds(with_changes(config, changes), selection, current_display.get().note)
    for earlier in rounds.earlier():
        rounds.add(retrain(config=earlier))
    with Retraining(rounds.config, selection, run_id) as run, rounds.recorded_in(run.summary):
        for name in STAGE_NAMES:
            run.stage(name)
        run.register()
    return completed(outcome(run.summary), run.summary)
