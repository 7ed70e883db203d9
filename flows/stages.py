"""One Prefect flow for each stage, with a form of its own.

All flows have the same parameters: the input, the configuration sections that only this stage reads, and the recipe
for everything else. The table of stages determines the sections.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.flows import Flow
from pydantic import BaseModel

from flows.display.markdown import plain
from flows.display.outcome import outcome
from flows.retraining import Retraining
from flows.runs.endings import completed, ends_in_words
from flows.runs.origin import LATEST, Origin, find_origin, producer_of
from flows.runs.run_names import name_of_stage, unless_typed
from flows.runs.selection import REGISTER, STEPS, Selection, StepName
from flows.runs.summary import RunSummary
from flows.servers.heartbeats import says_its_end
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe, split_changes, with_changes
from nmt_core.stages.table import STAGES, first_reader

_FIRST_RECIPE = "quickstart"
_OF_REGISTER = ("registry",)

_EXAMPLES: Mapping[StepName, str] = {
    "download": "corpus.toy.pairs=2000",
    "clean": "clean.max_words=60",
    "split": "split.dev_pairs=700",
    "synthesise": "synthesis.parts=[{name: made, text: parallel_source, teachers: models:/quickstart@champion}]",
    "augment": "augmentation.parts=[{name: capitals, changes: upper_case}]",
    "tokenizer": "tokenizer.vocab_size=8000",
    "encode": "encode.max_length=100",
    "train": "train.max_updates=60",
    "average": "average.checkpoints=2",
    "export": "export.shortlist=true",
    "evaluate": "search.beam_size=8",
    REGISTER: "registry.metric=chrF",
}
"""Example of a change, by the step that reads its section."""

_MEANINGS = {
    "input": "Artifact of {producer} to start from: latest (newest run of the recipe), the id of a run, or the first "
    "digits of the artifact's fingerprint.",
    "recipe": "Name or path of a recipe. It supplies the options that neither this form nor the run that made the "
    "input sets.",
    "force": "Run the stage again even if its artifact exists.",
    "changes": "Changes to the sections below, as after --set: `{example}`. Separate several by commas or line breaks. "
    "They replace the values below.",
}


def sections_of(step: StepName) -> tuple[str, ...]:
    """Return the configuration sections that belong to a stage. Each belongs to one."""
    if step == REGISTER:
        return _OF_REGISTER
    return tuple(section for section in STAGES[step].sections if first_reader(section) == step)


def _run_step(step: StepName, values: dict[str, Any]) -> RunSummary:
    """Run one stage, and show its input in Prefect."""
    settings = Settings.load()
    recipe = load_recipe(values.get("recipe") or _FIRST_RECIPE)
    origin = find_origin(step, values.get("input") or LATEST, recipe, settings)
    changes = str(values.get("changes") or "")
    _require_own(step, changes)
    own = {name: _as_values(values.get(name)) for name in sections_of(step)}
    config = with_changes(origin.config.model_dump(mode="json") | own, changes)
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


def _as_values(section: Any) -> Any:
    """Return the values of a section. Prefect passes the values of a form, and a caller in Python passes a section."""
    return section.model_dump(mode="json") if isinstance(section, BaseModel) else section


def _require_own(step: StepName, changes: str) -> None:
    """Raise `ConfigError` for a change of a section that only other stages read: it would change nothing here."""
    own = sections_of(step)
    for change in split_changes(changes):
        if change.partition(".")[0] not in own:
            raise ConfigError(f"changes: {change}: {step} does not decide this: its sections are {', '.join(own)}")


def _described(origin: Origin, run: Retraining, settings: Settings) -> str:
    """Describe the artifact that a stage starts from, with links to the run that made it."""
    artifact, maker = origin.artifacts[0], origin.run
    lines = ["# Input", "", f"`{artifact.short}`, in {plain(artifact.path)}", ""]
    if not maker:
        return "\n".join([*lines, "No run of this home made or reused it.", ""])
    lines.append(f"Made or reused by the run {maker.run_id}:")
    if page := settings.pages().flow_run(maker.prefect_flow_run_id):
        lines.append(f"- [Page in Prefect]({page})")
    row = maker.stage(artifact.stage)
    if row and (page := run.mlflow_page(row.mlflow_run_id)):
        lines.append(f"- [Page in MLflow]({page})")
    return "\n".join([*lines, ""])


def _stage_flow(step: StepName) -> Flow[..., RunSummary]:
    """Return the flow of one stage. Its signature becomes the form."""
    producer = producer_of(step)
    sections = sections_of(step)
    parameters: dict[str, tuple[Any, Any]] = {"input": (str, LATEST)} if producer else {}
    parameters |= {"force": (bool, False)} if step != REGISTER else {}
    parameters |= {"changes": (str, "")} if sections else {}
    parameters |= {
        section: (PipelineConfig.model_fields[section].annotation, inspect.Parameter.empty) for section in sections
    }
    parameters |= {"recipe": (str, _FIRST_RECIPE)}
    meanings = {section: _first_line(PipelineConfig.model_fields[section].annotation) for section in sections}
    words = {"producer": producer, "example": _EXAMPLES.get(step, f"{sections[0]}.KEY=VALUE" if sections else "")}
    meanings |= {name: text.format(**words) for name, text in _MEANINGS.items() if name in parameters}

    @ends_in_words
    def run(**values: Any) -> RunSummary:
        summary = _run_step(step, values)
        return completed(outcome(summary), summary)

    run.__name__ = run.__qualname__ = step
    run.__doc__ = f"Run only the stage {step}.\n\nArgs:\n" + "".join(
        f"    {name}: {meaning}\n" for name, meaning in meanings.items()
    )
    keyword = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    signature = [keyword(name, annotation=kind, default=default) for name, (kind, default) in parameters.items()]
    run.__signature__ = inspect.Signature(signature, return_annotation=RunSummary)  # type: ignore[attr-defined]
    run.__annotations__ = {name: kind for name, (kind, _) in parameters.items()} | {"return": RunSummary}
    as_flow: Callable[[Any], Flow[..., RunSummary]] = flow(
        name=step,
        flow_run_name=unless_typed(partial(name_of_stage, step)),
        persist_result=False,
        validate_parameters=False,  # `_run_step` does, and explains what is wrong in a recipe's terms
    )
    return says_its_end(as_flow(run))


def _first_line(section: Any) -> str:
    return (inspect.getdoc(section) or "").partition("\n")[0]


STAGE_FLOWS: dict[StepName, Flow[..., RunSummary]] = {step: _stage_flow(step) for step in STEPS}

globals().update(
    {str(step): stage_flow for step, stage_flow in STAGE_FLOWS.items()}
)  # Prefect imports a flow by its module and its name
