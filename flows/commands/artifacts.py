"""`nmt artifacts`: what the store holds, where it comes from, and what can go."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.tree import Tree

from flows import reports
from flows.copies import abandoned_copies, is_copy, remove_copy
from flows.kept import Name, needed
from flows.settings import Settings
from nmt_core.artifacts import Artifact, Store
from nmt_core.corpus import storage
from nmt_core.shared_store import Listed, Objects
from nmt_core.stages import STAGES


def list_artifacts(stage: str | None) -> None:
    """Print the artifacts, newest first."""
    table = Table()
    for column in ("artifact", "recipe", "made", "seconds", "size"):
        table.add_column(column, justify="right" if column in {"seconds", "size"} else "left", no_wrap=True)
    for artifact in Settings.load().store.all(stage):
        manifest = artifact.manifest()
        made = f"{manifest.created:%Y-%m-%d %H:%M}"
        table.add_row(artifact.short, manifest.recipe, made, f"{manifest.seconds:.1f}", reports.size(manifest.size))
    Console().print(table)


def show_artifact(name: str) -> None:
    """Print an artifact's files and report."""
    console = Console()
    artifact = _resolve(Settings.load().store, name)
    manifest = artifact.manifest()
    console.print(f"{artifact.stage}/{artifact.fingerprint}\n{artifact.path}", highlight=False, soft_wrap=True)
    console.print(
        f"recipe {manifest.recipe}, made {manifest.created:%Y-%m-%d %H:%M} on {manifest.host}", highlight=False
    )
    for file, output in manifest.outputs.items():
        console.print(f"  {reports.size(output.bytes):>10}  {file}", highlight=False, markup=False)
    console.print(Markdown(reports.markdown(artifact.stage, artifact.report())))


def show_lineage(name: str) -> None:
    """Print what an artifact was made from, as a tree."""
    store = Settings.load().store
    artifact = _resolve(store, name)
    tree = Tree(artifact.short)
    _grow(tree, artifact, store, {artifact.fingerprint})
    Console().print(tree)


def _resolve(store: Store, name: str) -> Artifact:
    """The artifact of that name; a stage by itself means its newest."""
    newest = store.all(name) if name in STAGES else []
    return newest[0] if newest else store.resolve(name)


def _grow(tree: Tree, artifact: Artifact, store: Store, seen: set[str]) -> None:
    for stage, fingerprint in artifact.manifest().inputs.items():
        parent = store.local(stage, fingerprint)
        short = f"{stage}/{fingerprint[:12]}"
        if not parent:
            tree.add(f"{short} [dim](no longer here)[/]")
        elif fingerprint in seen:
            tree.add(f"{short} [dim](see above)[/]")
        else:
            seen.add(fingerprint)
            _grow(tree.add(short), parent, store, seen)


def pin_artifact(name: str, why: str | None) -> None:
    """Keep an artifact and all that it was made from, whatever `gc` is told; without a reason, no longer."""
    store = Settings.load().store
    artifact = _resolve(store, name)
    store.pin(artifact, why)
    done = "is no longer pinned" if why is None else "is pinned: gc keeps it and what it was made from"
    Console().print(f"{artifact.stage}/{artifact.fingerprint} {done}", highlight=False, soft_wrap=True)


def collect_garbage(keep_runs: int, *, delete: bool, shared_days: int = 30) -> None:
    """Print what nobody needs, here and in the shared store; delete it only if told to."""
    console = Console()
    settings = Settings.load()
    kept = needed(settings, keep_runs)
    freed = count = 0
    for folder in _garbage_here(settings, kept):
        size = size_of(folder)
        freed, count = freed + size, count + 1
        console.print(f"{reports.size(size):>10}  {shown_name(folder, settings)}", highlight=False, markup=False)
        if delete:
            free(folder, settings)
    for shared, listed in _shared_garbage(settings, kept, timedelta(days=shared_days)).items():
        freed, count = freed + listed.bytes, count + 1
        place = f"{settings.shared_store.rstrip('/')}/{shared}"
        console.print(f"{reports.size(listed.bytes):>10}  {place}", highlight=False, markup=False, soft_wrap=True)
        if delete:
            Objects(settings.shared_store).remove(listed)
    done = "freed" if delete else "would be freed; nothing was deleted: add --yes to delete"
    console.print(f"{reports.size(freed)} in {count} folders {done}", highlight=False)


def shown_name(folder: Path, settings: Settings) -> str:
    """How a folder of `find_garbage` is called: by its place in the store, or below the home."""
    return str(folder.relative_to(settings.home if is_copy(folder, settings.home) else settings.store.root))


def free(folder: Path, settings: Settings) -> None:
    """Delete a folder of `find_garbage`."""
    if is_copy(folder, settings.home):
        remove_copy(folder)
        return
    settings.store.remove(folder)
    if settings.scratch:  # what a stage that was killed has left there
        storage.remove_folder(settings.resources.scratch_for(folder))


def find_garbage(settings: Settings, keep_runs: int) -> list[Path]:
    """Folders of this machine that nobody needs: neither runs, nor registered models, nor who pinned one; and copies of
    models that a killed process has left.
    """
    return _garbage_here(settings, needed(settings, keep_runs))


def _garbage_here(settings: Settings, kept: set[Name]) -> list[Path]:
    """Folders of this machine; those of a run that may go on are kept though they are no artifacts yet."""
    artifacts = [artifact for name in kept if (artifact := settings.store.local(*name))]
    whole = {(artifact.stage, artifact.fingerprint) for artifact in artifacts}
    unneeded = [
        folder
        for folder in settings.store.garbage(artifacts)
        if (folder.parent.name, folder.name.split(".")[0]) not in kept - whole
    ]
    return unneeded + abandoned_copies(settings.home)


def _shared_garbage(settings: Settings, kept: set[Name], age: timedelta) -> dict[str, Listed]:
    """Artifacts of the shared store that nobody needs, and that no other machine has made lately."""
    if not settings.shared_store:
        return {}
    now = datetime.now(UTC)
    return {
        name: listed
        for name, listed in sorted(Objects(settings.shared_store).all().items())
        if (*name.split("/"),) not in kept and listed.newest < now - age
    }


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
