"""Garbage: artifacts that nothing needs, here and in the shared store, and abandoned copies of models."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from flows.registry.copies import abandoned_copies, remove_copy
from flows.retention.kept import needed
from flows.retention.registries import Name
from flows.settings import Settings
from nmt_core.store import storage
from nmt_core.store.shared import Objects

UNFINISHED_DAYS = 30
"""Default age in days up to which partial artifacts of interrupted stages are kept."""


@dataclass(frozen=True)
class Rubbish:
    """Artifact, partial artifact or copy of a model that can be removed."""

    name: str
    """Path within the store or the home of this machine, or address in the shared store."""
    bytes: int
    remove: Callable[[], None]


def garbage(
    settings: Settings,
    keep_runs: int,
    shared_days: int,
    *,
    unfinished_days: int = UNFINISHED_DAYS,
    gone: Collection[str] = (),
    note: Callable[[str], None] = lambda line: None,
) -> list[Rubbish]:
    """Return everything that no run, no registered model and no pin needs.

    Args:
        settings: Settings that locate the stores.
        keep_runs: Number of recent runs of each recipe whose artifacts are kept.
        shared_days: Age in days up to which artifacts of the shared store are kept, because it knows nothing of the
            runs of other machines.
        unfinished_days: Age in days up to which partial artifacts are kept, because their stages may resume.
        gone: Registries that no longer exist.
        note: Callback that receives a line for each artifact kept for a model that no reachable registry knows.

    Raises:
        ModelError: MLflow does not return the registered models.
        ArtifactError: The shared store does not answer.
    """
    kept = needed(settings, keep_runs, gone)
    for mark in kept.unknown_marks:
        note(f"kept for a model that no reachable registry knows: {mark} (add --forget {mark.id} if it is gone)")
    return [
        *_here(settings, kept.names, timedelta(days=unfinished_days)),
        *_copies(settings),
        *_shared(settings, kept.names, timedelta(days=shared_days)),
    ]


def _here(settings: Settings, kept: set[Name], age: timedelta) -> Iterator[Rubbish]:
    """Yield unneeded folders of this machine. Partial artifacts of a run that may resume are kept."""
    store, now = settings.store, datetime.now(UTC)
    artifacts = [artifact for name in kept if (artifact := store.local(*name))]
    whole = {(artifact.stage, artifact.fingerprint) for artifact in artifacts}
    for folder in store.garbage(artifacts):
        fingerprint, _, unfinished = folder.name.partition(".")
        is_needed = (folder.parent.name, fingerprint) in kept - whole  # a run may resume there, or it is damaged
        if is_needed or (unfinished and _last_written(folder) > now - age):
            continue
        yield Rubbish(str(folder.relative_to(store.root)), _size_of(folder), partial(_free, folder, settings))


def _copies(settings: Settings) -> Iterator[Rubbish]:
    """Yield copies of models that killed processes left behind."""
    for folder in abandoned_copies(settings.home):
        yield Rubbish(str(folder.relative_to(settings.home)), _size_of(folder), partial(remove_copy, folder))


def _shared(settings: Settings, kept: set[Name], age: timedelta) -> Iterator[Rubbish]:
    """Yield artifacts of the shared store that no machine needs or has made recently."""
    if not settings.shared_store:
        return
    objects, now = Objects(settings.shared_store), datetime.now(UTC)
    for name, listed in sorted(objects.all().items()):
        stage, _, fingerprint = name.partition("/")
        if (stage, fingerprint) not in kept and listed.newest < now - age:
            yield Rubbish(f"{objects.url}/{name}", listed.bytes, partial(objects.remove, listed))


def _free(folder: Path, settings: Settings) -> None:
    settings.store.remove(folder)
    if settings.scratch:  # temporary files of a killed stage
        storage.remove_folder(settings.resources.scratch_for(folder))


def _last_written(folder: Path) -> datetime:
    """Return the time of the last write anywhere in a folder."""
    times = (path.lstat().st_mtime for path in (folder, *folder.rglob("*")))
    return datetime.fromtimestamp(max(times), UTC)


def _size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
