"""One stage by itself, as a Prefect flow."""

from prefect import flow

from flows.retrain import retrain
from flows.selection import StepName
from flows.summary import RunSummary
from nmt_core.config import PipelineConfig


@flow(name="stage", flow_run_name="{stage}", persist_result=False)
def run_stage(stage: StepName, config: PipelineConfig, force: bool = False) -> RunSummary:
    """Run one stage; what it needs of earlier stages must have been made.

    Args:
        stage: The stage.
        config: The recipe.
        force: Run it even if its artifact is there.
    """
    summary: RunSummary = retrain.fn(config, stage, stage, [stage] if force else [])
    return summary
