"""Main flow, from corpora to a registered model."""

from typing import cast

from prefect import flow

from flows.retraining import Retraining
from flows.runs.preemption import preempted
from flows.runs.selection import Selection, StepName
from flows.runs.summary import RunSummary
from flows.servers.heartbeats import says_its_end
from nmt_core.config import PipelineConfig
from nmt_core.errors import PreemptedError
from nmt_core.stages import STAGE_NAMES


@says_its_end
@flow(name="retrain", flow_run_name="{config.name}", persist_result=False)
def retrain(
    config: PipelineConfig,
    from_: StepName = "download",
    until: StepName = "register",
    force: list[StepName] = [],  # noqa: B006  # Prefect's form shows the default; nothing changes it
    run_id: str = "",
) -> RunSummary:
    """Retrain a translation model, from its corpora to a registered version.

    Args:
        config: Recipe to run.
        from_: First stage to run. The artifacts of earlier stages must exist.
        until: Last stage to run.
        force: Stages to run again even if their artifacts exist.
        run_id: Name of the run's folder. Leave empty to derive it from the time and the recipe.
    """
    try:
        with Retraining(config, Selection(from_, until, tuple(force)), run_id) as run:
            for name in STAGE_NAMES:
                run.stage(name)
            run.register()
    except PreemptedError as error:
        return cast(RunSummary, preempted(error))
    return run.summary
