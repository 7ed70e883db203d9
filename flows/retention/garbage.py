"""What can go: artifacts that nobody needs, here and in the store that machines share, and copies of models."""

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
"""How long what an interrupted stage has left is kept, if nothing else is asked for."""


@dataclass(frozen=True)
class Rubbish:
    """One artifact, one in the making, or a copy of a model, that can go."""

    name: str
    """Its path within the store or the home of this machine, or its address in the shared store."""
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
    """All that no run, no registered model and no pin needs.

    Args:
        settings: where the stores are.
        keep_runs: what this many of the last runs of each recipe need is kept.
        shared_days: what is younger than so many days is kept in the shared store, which knows nothing of the runs of
            other machines.
        unfinished_days: what an interrupted stage has left is kept for so many days, for it may resume there.
        gone: registries that are there no more.
        note: is told what is kept for models that no registry in reach knows.

    Raises:
        ModelError: MLflow does not say what registered models need.
        ArtifactError: the shared store does not answer.
    """
    kept = needed(settings, keep_runs, gone)
    for mark in kept.unknown_marks:
        note(f"kept for a model that no registry in reach knows: {mark} (--forget {mark.id} if it is there no more)")
    return [
        *_here(settings, kept.names, timedelta(days=unfinished_days)),
        *_copies(settings),
        *_shared(settings, kept.names, timedelta(days=shared_days)),
    ]


def _here(settings: Settings, kept: set[Name], age: timedelta) -> Iterator[Rubbish]:
    """Folders of this machine; those of a run that may go on are kept though they are no artifacts yet."""
    store, now = settings.store, datetime.now(UTC)
    artifacts = [artifact for name in kept if (artifact := store.local(*name))]
    whole = {(artifact.stage, artifact.fingerprint) for artifact in artifacts}
    for folder in store.garbage(artifacts):
        fingerprint, _, unfinished = folder.name.partition(".")
        is_needed = (folder.parent.name, fingerprint) in kept - whole  # a run may go on there, or it is damaged
        if is_needed or (unfinished and _last_written(folder) > now - age):
            continue
        yield Rubbish(str(folder.relative_to(store.root)), _size_of(folder), partial(_free, folder, settings))


def _copies(settings: Settings) -> Iterator[Rubbish]:
    """Copies of models that a process which was killed has left."""
    for folder in abandoned_copies(settings.home):
        yield Rubbish(str(folder.relative_to(settings.home)), _size_of(folder), partial(remove_copy, folder))


def _shared(settings: Settings, kept: set[Name], age: timedelta) -> Iterator[Rubbish]:
    """Artifacts of the shared store that no other machine has made lately."""
    if not settings.shared_store:
        return
    objects, now = Objects(settings.shared_store), datetime.now(UTC)
    for name, listed in sorted(objects.all().items()):
        stage, _, fingerprint = name.partition("/")
        if (stage, fingerprint) not in kept and listed.newest < now - age:
            yield Rubbish(f"{objects.url}/{name}", listed.bytes, partial(objects.remove, listed))


def _free(folder: Path, settings: Settings) -> None:
    settings.store.remove(folder)
    if settings.scratch:  # what a stage that was killed has left there
        storage.remove_folder(settings.resources.scratch_for(folder))


def _last_written(folder: Path) -> datetime:
    """When anything in a folder was last written."""
    times = (path.lstat().st_mtime for path in (folder, *folder.rglob("*")))
    return datetime.fromtimestamp(max(times), UTC)


def _size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
