"""`nmt plan` and `nmt why`: what a run would do, without doing any of it."""

import os

from rich import box
from rich.table import Table

from flows.display import reports
from flows.display.progress import styled, terminal
from flows.runs.estimate import Estimate, estimate
from flows.runs.selection import REGISTER, Selection
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.stages.stage import STRICT_VERSIONS
from nmt_core.stages.table import FORCED, STAGES, PlannedStage, plan
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.store.library_versions import versions
from nmt_core.train.continuing import foresee

_TRAIN = "train"


def show_plan(config: PipelineConfig, selection: Selection) -> None:
    """Print what each stage would do, why, and how much disk it would take."""
    selection.check(config)
    store = Settings.load().store
    console = terminal(to_stderr=False)
    console.print(styled((config.name, "bold"), f": {config.description}"))
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("stage", "would", "because", "disk", "estimated by"):
        table.add_column(column, justify="right" if column == "disk" else "left", overflow="fold")
    total, unknown = 0.0, False
    for planned in plan(config, store, selection.force):
        name = planned.stage.name
        if not selection.includes(name):
            there = "made already" if planned.artifact else "not made"
            table.add_row(name, "be left out", there, "", "", style="dim")
        elif planned.artifact:
            table.add_row(name, styled(("be reused", "green")), planned.reason, "", "")
        else:
            need = estimate(name, config, store)
            total, unknown = total + (need.bytes or 0), unknown or need.bytes is None
            because = _why(planned, config, store)
            table.add_row(name, styled(("run", "bold")), because, _size(need), need.basis)
    if selection.includes(REGISTER):
        table.add_row(REGISTER, "register", f"as {config.model_name}, unless it is registered already", "", "")
    console.print(table)
    more = ", and the text that is not here yet" if unknown else ""
    console.print(f"Disk for new artifacts: about {reports.size(total)}{more}. Nothing has been run.")


def show_reason(stage: str, config: PipelineConfig) -> None:
    """Print why a run would run a stage, or would not."""
    if stage not in STAGES:
        raise ConfigError(f"stage {stage!r} is unknown: the stages are {', '.join(STAGES)}")
    store = Settings.load().store
    planned = next(planned for planned in plan(config, store) if planned.stage.name == stage)
    would = "would be reused" if planned.artifact else "would run"
    console = terminal(to_stderr=False)
    console.print(f"{stage} {would}: {_why(planned, config, store)}", soft_wrap=True)
    if planned.compared and (other := other_versions(store, planned.compared)):
        console.print(other, soft_wrap=True)
    console.print(f"artifact {stage}/{planned.fingerprint}", style="dim", soft_wrap=True)


def other_versions(store: Store, artifact: Artifact) -> str:
    """Versions with which an artifact was made and that are others here; nothing, if there are none."""
    manifest, here = store.manifest(artifact.stage, artifact.fingerprint), versions()
    made = manifest.versions if manifest else here
    names = [name for name in sorted(made.keys() | here.keys()) if made.get(name) != here.get(name)]
    if not names:
        return ""
    changes = ", ".join(f"{name} {made.get(name, 'none')} -> {here.get(name, 'none')}" for name in names)
    rule = "" if os.environ.get(STRICT_VERSIONS) == "1" else f", which do not count ({STRICT_VERSIONS}=1: they do)"
    return f"versions since {artifact.short} was made{rule}: {changes}"


def _why(planned: PlannedStage, config: PipelineConfig, store: Store) -> str:
    """Why a stage would run, or not; of a training that is not forced, also where it would begin."""
    if planned.stage.name != _TRAIN or planned.artifact or planned.reason == FORCED:
        return planned.reason
    start = foresee(store.partial(_TRAIN, planned.fingerprint), planned.identity, config.train)
    return "; ".join(filter(None, (planned.reason, start)))


def _size(need: Estimate) -> str:
    return "?" if need.bytes is None else reports.size(need.bytes)
