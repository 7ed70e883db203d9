"""Which artifacts somebody still needs: the last runs, runs in progress, registered models, and whoever pinned one."""

import sys
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flows.registry.in_use import used
from flows.registry.marks import Mark, marks
from flows.retention.registries import Name, registered
from flows.runs.start_from import MADE_OF
from flows.runs.summary import RegisteredModel, RunSummary, last_runs
from flows.settings import Settings
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Store

_LONGEST_RUN = timedelta(days=30)  # a run that was killed without warning is never said to have ended


@dataclass(frozen=True)
class Needed:
    """Artifacts that must not be removed."""

    names: set[Name]
    unknown_marks: list[Mark]
    """Marks of models that no registry in reach knows; what they name is kept, with all that it was made from."""


def needed(settings: Settings, keep_runs: int, gone: Collection[str] = ()) -> Needed:
    """Every artifact that must not be removed, on this machine or in the shared store.

    Kept with all that they were made from: what the last runs and those in progress have made and what they read, what
    a translation reads, what is pinned, models that have an alias, and models that are marked in the store and of which
    no registry in reach knows anything. Kept by themselves: what any other version of a registered model was made of,
    and what the last runs start from.

    Args:
        settings: where the stores and the registry are.
        keep_runs: how many runs of each recipe count as the last ones.
        gone: registries that are there no more.

    Raises:
        ModelError: a registry does not answer, so nobody knows what is registered.
        ArtifactError: the shared store does not answer.
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
    """Runs in progress, and the last runs of each recipe.

    A run that made nothing does not count: whoever repeats a finished command keeps what the runs before it made. It is
    kept like the others if it is younger than the oldest run that counts.

    Args:
        runs: all of them, the newest first.
        keep_runs: how many runs count, of each recipe.
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
    """These and everything that they were made from, as far as a manifest is there to tell."""
    found, ahead = set(), [name for name in names if name[0] in STAGES]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            manifest = store.manifest(*name)
            ahead += manifest.inputs.items() if manifest else ()
    return found


def _to_start_from(runs: list[RunSummary], recent: list[RunSummary]) -> set[Name]:
    """Weights and vocabularies of the newest champion and challenger of each model, and what recent runs start from.

    Args:
        runs: all of them, the newest first.
        recent: those that are kept.
    """
    holders: dict[tuple[str, str], RegisteredModel] = {}
    for model in [run.model for run in runs if run.model]:
        for alias in model.aliases:
            holders.setdefault((model.name, alias), model)
    wanted = {part for model in holders.values() for part in model.made_of.items()}
    for run in recent:
        places = [Path(run.config.get(section, {}).get("start_from", "")) for section in MADE_OF]
        # By name, for the home may have been moved since: a folder elsewhere of such a name keeps nothing that is here
        wanted |= {(place.parent.name, place.name) for place in places if place.parent.name in STAGES}
    return wanted
