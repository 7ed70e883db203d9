"""Which artifacts somebody still needs: the last runs, runs in progress, registered models, and whoever pinned one."""

import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flows.in_use import used
from flows.settings import Settings
from flows.start_from import MADE_OF, tag_of
from flows.summary import RegisteredModel, RunSummary, last_runs
from nmt_core.artifacts import Store
from nmt_core.errors import ModelError, words_of
from nmt_core.stages import STAGES

Name = tuple[str, str]
"""Stage and fingerprint."""

_LONGEST_RUN = timedelta(days=30)  # a run that was killed without warning is never said to have ended
_SQLITE = "sqlite:///"


def needed(settings: Settings, keep_runs: int) -> set[Name]:
    """Every artifact that must not be removed, on this machine or in the shared store.

    Kept with all that they were made from: what the last runs and those in progress have made and what they read, what
    a translation reads, what is pinned, and models that have an alias. Kept by themselves: what any other version of a
    registered model was made of, and what the last runs start from.

    Raises:
        ModelError: MLflow does not answer, so nobody knows what is registered.
        ArtifactError: the shared store does not answer.
    """
    store, runs = settings.store, last_runs(settings.runs, sys.maxsize)
    recent = [run for number, run in enumerate(runs) if number < keep_runs or _is_in_progress(run)]
    made = {(row.name, row.fingerprint) for run in recent for row in run.stages}
    parts = (name.partition("/") for run in recent for name in run.inputs)
    read = {(stage, fingerprint) for stage, _, fingerprint in parts}
    with_alias, others = _registered(settings)
    whole = _with_lineage(store, made | read | used(store) | store.pins() | with_alias)
    return whole | others | _to_start_from(store, runs, recent)


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


def _registered(settings: Settings) -> tuple[set[Name], set[Name]]:
    """What versions of registered models were made of: those with an alias, and the others."""
    uri = settings.mlflow_tracking_uri
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).is_file():  # else MLflow would make it
        return set(), set()
    settings.prepare()  # MLflow reads its environment when it is imported
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    with_alias: set[Name] = set()
    others: set[Name] = set()
    try:
        client = MlflowClient(uri)
        for model in client.search_registered_models(max_results=1_000):
            wanted = {str(version) for version in model.aliases.values()}
            for version in client.search_model_versions(f"name='{model.name}'", max_results=10_000):
                names = {(stage, version.tags.get(tag_of(stage), "")) for stage in STAGES} - {(s, "") for s in STAGES}
                (with_alias if str(version.version) in wanted else others).update(names)
    except MlflowException as error:
        raise ModelError(
            f"MLflow at {settings.mlflow_shown} does not say which models are registered, and what they need must not "
            f"be removed: {words_of(error)}: see that it answers, then run the same command again"
        ) from None
    return with_alias, others


def _to_start_from(store: Store, runs: list[RunSummary], recent: list[RunSummary]) -> set[Name]:
    """Weights and vocabularies of the newest champion and challenger of each model, and what recent runs start from.

    Args:
        store: of the artifacts.
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
        wanted |= {(place.parent.name, place.name) for place in places if place.parent.parent == store.root}
    return wanted
