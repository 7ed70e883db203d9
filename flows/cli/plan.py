"""`nmt plan` and `nmt why`: show what a run would do, without running anything."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import Debug, Force, From, Overrides, Recipe, Until, read_config, selection_of
from flows.runs.selection import REGISTER, Selection, StepName
from nmt_core.errors import ConfigError

if TYPE_CHECKING:
    from nmt_core.config import PipelineConfig


def plan(
    recipe: Recipe,
    overrides: Overrides = None,
    from_: From = "download",
    until: Until = "register",
    force: Force = None,
    debug: Debug = False,
) -> None:
    """Check a recipe, and show what a run would do and why. Changes nothing."""
    _show_plan(read_config(recipe, overrides, debug=debug), selection_of(from_, until, force))


def _show_plan(config: "PipelineConfig", selection: Selection) -> None:
    """Print for each stage whether it would run, why, and how much disk space it would need."""
    from rich import box
    from rich.table import Table

    from flows.display import reports
    from flows.display.progress import styled, terminal
    from flows.runs.estimate import estimate
    from flows.runs.reasons import reason_of
    from flows.settings import Settings
    from nmt_core.stages.table import plan

    selection.check(config)
    store = Settings.load().store
    console = terminal(to_stderr=False)
    console.print(styled((config.name, "bold"), f": {config.description}"))
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("stage", "action", "reason", "disk", "estimate from"):
        table.add_column(column, justify="right" if column == "disk" else "left", overflow="fold")
    total, unknown = 0.0, False
    for planned in plan(config, store, selection.force):
        name = planned.stage.name
        if not selection.includes(name):
            state = "made already" if planned.artifact else "not made"
            table.add_row(name, "skip", state, "", "", style="dim")
        elif planned.artifact:
            table.add_row(name, styled(("reuse", "green")), planned.reason, "", "")
        else:
            need = estimate(name, config, store)
            total, unknown = total + (need.bytes or 0), unknown or need.bytes is None
            size = "?" if need.bytes is None else reports.size(need.bytes)
            table.add_row(name, styled(("run", "bold")), reason_of(planned, config, store), size, need.basis)
    if selection.includes(REGISTER):
        table.add_row(REGISTER, "register", f"as {config.model_name}, unless it is registered already", "", "")
    console.print(table)
    more = ", plus text that is not downloaded yet" if unknown else ""
    console.print(f"Disk for new artifacts: about {reports.size(total)}{more}. Nothing was run.")


def why(
    stage: Annotated[StepName, typer.Argument(help="Name of the stage.")],
    recipe: Recipe,
    overrides: Overrides = None,
    debug: Debug = False,
) -> None:
    """Show why a stage would run or be reused."""
    from flows.display.progress import terminal
    from flows.runs.reasons import other_versions, reason_of
    from flows.settings import Settings
    from nmt_core.stages.table import STAGES, plan

    config = read_config(recipe, overrides, debug=debug)
    if stage not in STAGES:
        raise ConfigError(f"stage {stage!r} is unknown: the stages are {', '.join(STAGES)}")
    store = Settings.load().store
    planned = next(planned for planned in plan(config, store) if planned.stage.name == stage)
    would = "would be reused" if planned.artifact else "would run"
    console = terminal(to_stderr=False)
    console.print(f"{stage} {would}: {reason_of(planned, config, store)}", soft_wrap=True)
    if planned.compared and (other := other_versions(store, planned.compared)):
        console.print(other, soft_wrap=True)
    console.print(f"artifact {stage}/{planned.fingerprint}", style="dim", soft_wrap=True)
