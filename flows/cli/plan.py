"""`nmt plan` and `nmt why`: show what a run would do, without running anything."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import Debug, Force, From, Overrides, Recipe, Until, read_config, selection_of
from flows.runs.selection import REGISTER, Selection, StepName
from nmt_core.errors import ConfigError, counted

if TYPE_CHECKING:
    from flows.runs.span import StageForecast
    from nmt_core.config import PipelineConfig


def plan(
    recipe: Recipe,
    overrides: Overrides = None,
    from_: From = "download",
    until: Until = "register",
    force: Force = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="First measure this machine: run every stage on a small part of the text, for a minute or two. The "
            "measurement is kept for later forecasts, and the artifacts are removed.",
        ),
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Write a figure of the learning-rate schedule, from the recipe alone."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Check a recipe, and show what a run would do and why, how long it would take and what it would need.

    Runs nothing, except with --measure.
    """
    config, selection = read_config(recipe, overrides, debug=debug), selection_of(from_, until, force)
    selection.check(config)
    if measure:
        _measure(config)
    _show_plan(config, selection)
    if figure:
        from flows.display.progress import terminal
        from flows.html_report.schedule import write_schedule

        write_schedule(config.train, config.model, figure)
        terminal(to_stderr=False).print(f"figure: {figure}", soft_wrap=True)


def _measure(config: "PipelineConfig") -> None:
    """Measure this machine for a recipe.

    Raises:
        ConfigError: training runs on a cluster, which this machine cannot measure.
    """
    from flows.cli.interruption import interruptible
    from flows.display.progress import terminal
    from flows.launchers import launcher_for
    from flows.runs.measure import measure
    from flows.settings import Settings, allow_code_of_its_owner
    from nmt_core.corpus.cleaning import scorers
    from nmt_core.execution.pool import LocalWorkers
    from nmt_core.stages.stage import Job, SilentReporter

    allow_code_of_its_owner()
    settings = Settings.load()
    if settings.launcher != "local":
        raise ConfigError(
            f"nmt plan --measure: NMT_LAUNCHER={settings.launcher} trains on a cluster, and this machine would be "
            "measured: plan without --measure, which compares with earlier runs, or unset NMT_LAUNCHER"
        )
    if not settings.allow_code:
        scorers.require_allowed(config.clean)
    console = terminal(to_stderr=True)
    with interruptible(), LocalWorkers(settings.threads) as workers:
        launcher = launcher_for(settings, config.name)
        job = Job(SilentReporter(), settings.resources, workers, launcher, allow_code=settings.allow_code)
        measure(config, settings, job, lambda name: console.print(f"measuring {name}", soft_wrap=True))


def _show_plan(config: "PipelineConfig", selection: Selection) -> None:
    """Print for each stage whether it would run and why, and how much time, memory, disk and money it would take."""
    from flows.display import forecasts
    from flows.display.progress import styled, terminal, titled
    from flows.display.tables import terminal_table
    from flows.runs.forecast import Forecaster
    from flows.runs.machine import Free
    from flows.runs.reasons import makers_of, reason_of, with_compared
    from flows.settings import Settings
    from nmt_core.judges.impartial import partial_judges
    from nmt_core.stages.table import plan

    settings = Settings.load()
    store, planned = settings.store, plan(config, settings.store, selection.force)
    console = terminal(to_stderr=False)
    console.print(titled(config.name, config.description))
    forecaster = Forecaster(config, settings, planned)
    table = terminal_table(("stage", "action", "reason"), folded={"reason"})
    foreseen, makers = [], makers_of(settings.runs)
    for one in planned:
        name = one.stage.name
        if not selection.includes(name):
            table.add_row(name, "skip", "made already" if one.artifact else "not made", style="dim")
        elif one.artifact:
            table.add_row(name, styled(("reuse", "green")), one.reason)
        else:
            reason = with_compared(reason_of(one, config, store), one, makers)
            table.add_row(name, styled(("run", "bold")), reason)
            foreseen.append(forecaster.stage(name))
    if selection.includes(REGISTER):
        table.add_row(REGISTER, "register", f"as {config.model_name}, unless it is registered already")
        foreseen.append(forecaster.stage(REGISTER))
    console.print(table)
    if foreseen:
        console.print(forecasts.table(foreseen, settings.prices))
    free = Free.of(store.root)
    lines = (*_notes(foreseen), forecasts.free_line(free), forecasts.busy_line(free))
    for line in (*filter(None, lines), *forecasts.warnings(foreseen, free)):
        console.print(line, soft_wrap=True)
    for warning in partial_judges(config):
        console.print(f"Warning: {warning}", soft_wrap=True)
    if config.rounds.count:
        console.print(_about_rounds(config), soft_wrap=True)
    console.print("Nothing was run.")


def _about_rounds(config: "PipelineConfig") -> str:
    """Return what a run with rounds does before the stages of its own training."""
    if config.languages.pairs:
        before = counted(config.rounds.count - 1, "other model")
        return f"Before these stages, this run trains {before}, and the newest becomes the teacher `reverse`."
    before = counted(2 * config.rounds.count - 1, "other model")
    return (
        f"Before these stages, this run trains {before} in both directions, and the newest of the other direction "
        "becomes the teacher `reverse`."
    )


def _notes(foreseen: "Sequence[StageForecast]") -> list[str]:
    """Return what a reader of the forecasts must know: what is missing, and what is only a guess."""
    unknown = [one.name for one in foreseen if one.seconds is None or one.disk_bytes is None]
    notes = []
    if unknown:
        notes.append(f"Not known until the text is downloaded: the time or the disk space of {', '.join(unknown)}.")
    if any(one.origin == "reference" for one in foreseen):
        notes.append(
            "A guess is scaled from figures of the package. --measure measures this machine, in a minute or two."
        )
    return notes


def why(
    stage: Annotated[StepName, typer.Argument(help="Name of the stage.")],
    recipe: Recipe,
    overrides: Overrides = None,
    debug: Debug = False,
) -> None:
    """Show why a stage would run or be reused."""
    from flows.display.progress import terminal
    from flows.runs.reasons import makers_of, other_versions, reason_of, with_compared
    from flows.settings import Settings
    from nmt_core.stages.table import STAGES, plan

    config = read_config(recipe, overrides, debug=debug)
    if stage not in STAGES:
        raise ConfigError(f"stage {stage!r} is unknown: the stages are {', '.join(STAGES)}")
    settings = Settings.load()
    store = settings.store
    planned = next((planned for planned in plan(config, store) if planned.stage.name == stage), None)
    if not planned:
        raise ConfigError(f"recipe {config.name} has no stage {stage}: set {STAGES[stage].needed_by}")
    would = "would be reused" if planned.artifact else "would run"
    console = terminal(to_stderr=False)
    reason = with_compared(reason_of(planned, config, store), planned, makers_of(settings.runs))
    console.print(f"{stage} {would}: {reason}", soft_wrap=True)
    if planned.compared and (other := other_versions(store, planned.compared)):
        console.print(other, soft_wrap=True)
    console.print(f"artifact {stage}/{planned.fingerprint}", style="dim", soft_wrap=True)
