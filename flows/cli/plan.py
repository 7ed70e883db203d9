"""`nmt plan` and `nmt why`: show what a run would do, without running anything."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import Debug, Force, From, Overrides, Recipe, Until, read_config, selection_of
from flows.runs.selection import REGISTER, Selection, StepName
from nmt_core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

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
    """Print for each stage whether it would run, why, and how much disk space and memory it would need."""
    from rich import box
    from rich.table import Table

    from flows.display import reports
    from flows.display.progress import styled, terminal
    from flows.runs.estimate import estimate, memory
    from flows.runs.reasons import reason_of
    from flows.settings import Settings
    from nmt_core.stages.table import plan

    selection.check(config)
    settings = Settings.load()
    store = settings.store
    console = terminal(to_stderr=False)
    console.print(styled((config.name, "bold"), f": {config.description}"))
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("stage", "action", "reason", "disk", "estimate from", "memory"):
        table.add_column(column, justify="right" if column in ("disk", "memory") else "left", overflow="fold")
    total, unknown, largest = 0.0, False, ("", 0.0, "")
    for planned in plan(config, store, selection.force):
        name = planned.stage.name
        if not selection.includes(name):
            state = "made already" if planned.artifact else "not made"
            table.add_row(name, "skip", state, "", "", "", style="dim")
        elif planned.artifact:
            table.add_row(name, styled(("reuse", "green")), planned.reason, "", "", "")
        else:
            need = estimate(name, config, store)
            total, unknown = total + (need.bytes or 0), unknown or need.bytes is None
            size = "?" if need.bytes is None else reports.size(need.bytes)
            held = memory(name, config, settings.resources.threads)
            largest = max(largest, (name, held.bytes or 0, held.basis), key=lambda stage: stage[1])
            reason = reason_of(planned, config, store)
            table.add_row(name, styled(("run", "bold")), reason, size, need.basis, reports.size(held.bytes or 0))
    if selection.includes(REGISTER):
        table.add_row(REGISTER, "register", f"as {config.model_name}, unless it is registered already", "", "", "")
    console.print(table)
    more = ", plus text that is not downloaded yet" if unknown else ""
    console.print(f"Disk for new artifacts: about {reports.size(total)}{more}. Nothing was run.")
    _compare_with_machine(console, settings.home, total, largest)


def _compare_with_machine(console: "Console", home: Path, disk: float, largest: tuple[str, float, str]) -> None:
    """Print what this machine has free, and warn where a run needs more."""
    import psutil

    from flows.display import reports

    stage, needed, basis = largest
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    free, available = shutil.disk_usage(there).free, psutil.virtual_memory().available
    if stage:
        console.print(f"Memory: about {reports.size(needed)} for {stage} ({basis}).", soft_wrap=True)
    console.print(f"Free here: {reports.size(free)} of disk, {reports.size(available)} of memory.", soft_wrap=True)
    if disk > free:
        console.print("WARNING: the disk is too small: free space, or set NMT_HOME to another disk", soft_wrap=True)
    if needed > available:
        remedy = {
            "tokenizer": "lower tokenizer.sample_pairs",
            "train": "train on another machine, or choose a smaller model",
        }.get(stage, "lower clean.shard_pairs or NMT_THREADS")
        console.print(f"WARNING: {stage} needs more memory than is free: {remedy}", soft_wrap=True)


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
