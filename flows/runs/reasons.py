"""Reasons why a stage would run or be reused, and library versions that have changed since it ran."""

import os
from collections.abc import Mapping
from pathlib import Path

from flows.runs.summary import last_runs
from nmt_core.config import PipelineConfig
from nmt_core.stages.stage import STRICT_VERSIONS
from nmt_core.stages.table import FORCED, PlannedStage
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.store.library_versions import versions
from nmt_core.train.continuing import foresee

_TRAIN = "train"
_RUNS_READ = 40


def reason_of(planned: PlannedStage, config: PipelineConfig, store: Store) -> str:
    """Return why a stage would run or be reused. For a training, add the update from which it would resume."""
    if planned.stage.name != _TRAIN or planned.artifact or planned.reason == FORCED:
        return planned.reason
    start = foresee(store.partial(_TRAIN, planned.fingerprint), planned.identity, config.train)
    return "; ".join(filter(None, (planned.reason, start)))


def makers_of(runs: Path) -> dict[str, str]:
    """Return the newest run that made each artifact, by the artifact's fingerprint, among the last runs."""
    made = [
        (row.fingerprint, run.run_id)
        for run in last_runs(runs, _RUNS_READ)
        for row in run.stages
        if row.status == "done"
    ]
    return dict(reversed(made))


def with_compared(reason: str, planned: PlannedStage, makers: Mapping[str, str]) -> str:
    """Return the reason why a stage would run, with the artifact that it was compared with and the run that made it."""
    other = planned.compared
    if other is None or planned.artifact or planned.reason == FORCED:
        return reason
    maker = makers.get(other.fingerprint)
    return f"{reason} (compared with {other.short}{f' of run {maker}' if maker else ''})"


def other_versions(store: Store, artifact: Artifact) -> str | None:
    """Return the library versions that differ from those with which an artifact was made, or None."""
    manifest, here = store.manifest(artifact.stage, artifact.fingerprint), versions()
    made = manifest.versions if manifest else here
    names = [name for name in sorted(made.keys() | here.keys()) if made.get(name) != here.get(name)]
    if not names:
        return None
    changes = ", ".join(f"{name} {made.get(name, 'none')} -> {here.get(name, 'none')}" for name in names)
    is_strict = os.environ.get(STRICT_VERSIONS) == "1"
    rule = "" if is_strict else f", which do not count ({STRICT_VERSIONS}=1 makes them count)"
    return f"versions since {artifact.short} was made{rule}: {changes}"
