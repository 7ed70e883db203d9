"""Artifacts that are still needed: by recent runs, runs in progress, registered models, and pins."""

import sys
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from flows.registry.in_use import used
from flows.registry.marks import Mark, marks
from flows.retention.registries import Name, registered
from flows.runs.start_from import named_artifacts
from flows.runs.summary import RegisteredModel, RunSummary, last_runs
from flows.settings import Settings
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Store

_LONGEST_RUN = timedelta(days=30)  # a run that was killed is never marked as ended


@dataclass(frozen=True)
class Needed:
    """Artifacts that must not be removed."""

    names: set[Name]
    unknown_marks: list[Mark]
    """Marks of models that no reachable registry knows. Their artifacts and the inputs of these are kept."""


def needed(settings: Settings, keep_runs: int, gone: Collection[str] = ()) -> Needed:
    """Return every artifact that must not be removed, on this machine or in the shared store.

    These artifacts are returned with everything that they were made from: artifacts that recent runs and runs in
    progress made or read, artifacts that a translation reads, pinned artifacts, artifacts of models with an alias, and
    artifacts of marked models that no reachable registry knows. Artifacts of other versions of registered models, and
    artifacts that recent runs start from, are returned alone.

    Args:
        settings: Settings that locate the stores and the registry.
        keep_runs: Number of recent runs of each recipe.
        gone: Registries that no longer exist.

    Raises:
        ModelError: A registry does not answer, so the registered models are unknown.
        ArtifactError: The shared store does not answer.
    """
    store, runs = settings.store, last_runs(settings.runs, sys.maxsize)
    recent = _recent(runs, keep_runs)
    made = {(row.name, row.fingerprint) for run in recent for row in run.stages}
    parts = (name.partition("/") for run in recent for name in run.inputs)
    read = {(stage, fingerprint) for stage, _, fingerprint in parts}
    known = registered(settings, runs, gone)
    unknown_marks = [mark for mark in marks(store).values() if mark.id not in known.marks]
    marked = {name for mark in unknown_marks for name in mark.made_of.items()}
    whole = _with_lineage(store, made | read | used(store) | store.pins() | known.with_alias | marked)
    return Needed(whole | known.others | _to_start_from(runs, recent), unknown_marks)


def _recent(runs: Iterable[RunSummary], keep_runs: int) -> list[RunSummary]:
    """Return runs in progress, and the recent runs of each recipe.

    A run that made nothing does not count, so that repeating a finished command does not displace earlier runs. It is
    kept if it is younger than the oldest run that counts.

    Args:
        runs: All runs, newest first.
        keep_runs: Number of runs of each recipe that count.
    """
    counted = Counter[str]()
    recent = []
    for run in runs:
        if counted[run.recipe] < keep_runs:
            recent.append(run)
            counted[run.recipe] += any(row.status == "done" for row in run.stages)
        elif _is_in_progress(run):
            recent.append(run)
    return recent


def _is_in_progress(run: RunSummary) -> bool:
    return run.status == "running" and datetime.now(UTC) - run.started < _LONGEST_RUN


def _with_lineage(store: Store, names: Iterable[Name]) -> set[Name]:
    """Return these artifacts and everything that they were made from, as far as manifests exist."""
    kept, ahead = set(), [name for name in names if name[0] in STAGES]
    while ahead:
        name = ahead.pop()
        if name not in kept:
            kept.add(name)
            manifest = store.manifest(*name)
            ahead += manifest.inputs.items() if manifest else ()
    return kept


def _to_start_from(runs: list[RunSummary], recent: list[RunSummary]) -> set[Name]:
    """Return the artifacts that later or recent runs start from.

    These are weights and vocabularies of the newest champion and challenger of each model, and `start_from` and the
    teachers of recent runs.

    Args:
        runs: All runs, newest first.
        recent: Runs whose artifacts are kept.
    """
    holders: dict[tuple[str, str], RegisteredModel] = {}
    for model in [run.model for run in runs if run.model]:
        for alias in model.aliases:
            holders.setdefault((model.name, alias), model)
    artifacts = {part for model in holders.values() for part in model.made_of.items()}
    for run in recent:
        artifacts |= named_artifacts(run.config)
    return artifacts
