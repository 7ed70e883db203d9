"""One Prefect flow for each stage, with a form of its own.

All flows have the same parameters: the configuration sections that only this stage reads, its input, and the recipe
for everything else. The table of stages determines the sections.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.flows import Flow

from flows.display.markdown import plain
from flows.retraining import Retraining
from flows.runs.origin import LATEST, Origin, find_origin, producer_of
from flows.runs.preemption import preempted
from flows.runs.selection import REGISTER, STEPS, Selection, StepName
from flows.runs.summary import RunSummary
from flows.servers.heartbeats import says_its_end
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import PreemptedError
from nmt_core.recipes.recipe import load_recipe, with_sections
from nmt_core.stages.table import STAGES

_FIRST_RECIPE = "quickstart"
_OF_REGISTER = ("registry",)

_MEANINGS = {
    "input": "Artifact of {producer} to start from: latest (newest run of the recipe), the id of a run, or the first "
    "digits of the artifact's fingerprint.",
    "recipe": "Name or path of a recipe. It supplies the options that neither this form nor the run that made the "
    "input sets.",
    "force": "Run the stage again even if its artifact exists.",
}


def sections_of(step: StepName) -> tuple[str, ...]:
    """Return the configuration sections of a stage: those that no earlier stage reads."""
    if step == REGISTER:
        return _OF_REGISTER
    earlier = {section for name in STEPS[: STEPS.index(step)] for section in STAGES[name].sections}
    return tuple(section for section in STAGES[step].sections if section not in earlier)


def _run_step(step: StepName, values: dict[str, Any]) -> RunSummary:
    """Run one stage, and show its input in Prefect."""
    settings = Settings.load()
    recipe = load_recipe(values["recipe"])
    origin = find_origin(step, values.get("input", LATEST), recipe, settings)
    own = {section: values[section].model_dump() for section in sections_of(step)}
    config = with_sections(origin.config, own)
    selection = Selection(step, step, (step,) if values.get("force") else ())
    with Retraining(config, selection) as run:
        run.begin_with(origin.artifacts)
        if origin.artifacts:
            create_markdown_artifact(_described(origin, run, settings), key=f"input-{step}")
        if step == REGISTER:
            run.register()
        else:
            run.stage(step)
    return run.summary


def _described(origin: Origin, run: Retraining, settings: Settings) -> str:
    """Describe the artifact that a stage starts from, with links to the run that made it."""
    artifact, maker = origin.artifacts[0], origin.run
    lines = ["# Input", "", f"`{artifact.short}`, in {plain(artifact.path)}", ""]
    if not maker:
        return "\n".join([*lines, "No run of this home made or reused it.", ""])
    lines.append(f"Made or reused by the run {maker.run_id}:")
    if maker.prefect_flow_run_id:
        page = f"{settings.pages().prefect}/runs/flow-run/{maker.prefect_flow_run_id}"
        lines.append(f"- [Page in Prefect]({page})")
    row = maker.stage(artifact.stage)
    if row and (page := run.mlflow_page(row.mlflow_run_id)):
        lines.append(f"- [Page in MLflow]({page})")
    return "\n".join([*lines, ""])


def _stage_flow(step: StepName) -> Flow[..., RunSummary]:
    """Return the flow of one stage. Its signature becomes the form."""
    producer = producer_of(step)
    sections = sections_of(step)
    parameters: dict[str, tuple[Any, Any]] = {
        section: (PipelineConfig.model_fields[section].annotation, inspect.Parameter.empty) for section in sections
    }
    parameters |= {"input": (str, LATEST)} if producer else {}
    parameters |= {"recipe": (str, _FIRST_RECIPE)}
    parameters |= {"force": (bool, False)} if step != REGISTER else {}
    meanings = {section: _first_line(PipelineConfig.model_fields[section].annotation) for section in sections}
    meanings |= {name: text.format(producer=producer) for name, text in _MEANINGS.items() if name in parameters}

    def run(**values: Any) -> RunSummary:
        try:
            return _run_step(step, values)
        except PreemptedError as error:
            return cast(RunSummary, preempted(error))

    run.__name__ = run.__qualname__ = step
    run.__doc__ = f"Run only the stage {step}.\n\nArgs:\n" + "".join(
        f"    {name}: {meaning}\n" for name, meaning in meanings.items()
    )
    keyword = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    signature = [keyword(name, annotation=kind, default=default) for name, (kind, default) in parameters.items()]
    run.__signature__ = inspect.Signature(signature, return_annotation=RunSummary)  # type: ignore[attr-defined]
    run.__annotations__ = {name: kind for name, (kind, _) in parameters.items()} | {"return": RunSummary}
    as_flow: Callable[[Any], Flow[..., RunSummary]] = flow(name=step, flow_run_name=step, persist_result=False)
    return says_its_end(as_flow(run))


def _first_line(section: Any) -> str:
    return (inspect.getdoc(section) or "").partition("\n")[0]


STAGE_FLOWS: dict[StepName, Flow[..., RunSummary]] = {step: _stage_flow(step) for step in STEPS}

globals().update(
    {str(step): stage_flow for step, stage_flow in STAGE_FLOWS.items()}
)  # Prefect imports a flow by its module and its name
