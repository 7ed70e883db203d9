"""`nmt artifacts`: what the store holds, where it comes from, and what can go."""

import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.tree import Tree

from flows import reports
from flows.settings import Settings
from flows.start_from import MADE_OF
from flows.summary import RegisteredModel, RunSummary, last_runs
from nmt_core.artifacts import Artifact, Store
from nmt_core.corpus import storage
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
        parent = store.find(stage, fingerprint)
        short = f"{stage}/{fingerprint[:12]}"
        if not parent:
            tree.add(f"{short} [dim](no longer here)[/]")
        elif fingerprint in seen:
            tree.add(f"{short} [dim](see above)[/]")
        else:
            seen.add(fingerprint)
            _grow(tree.add(short), parent, store, seen)


def collect_garbage(keep_runs: int, *, delete: bool) -> None:
    """Print what no recent run needs; delete it only if told to."""
    console = Console()
    settings = Settings.load()
    rubbish = find_garbage(settings, keep_runs)
    freed = 0
    for folder in rubbish:
        size = size_of(folder)
        freed += size
        name = folder.relative_to(settings.store.root)
        console.print(f"{reports.size(size):>10}  {name}", highlight=False, markup=False)
        if delete:
            free(folder, settings)
    done = "freed" if delete else "would be freed; nothing was deleted: add --yes to delete"
    console.print(f"{reports.size(freed)} in {len(rubbish)} folders {done}", highlight=False)


def free(folder: Path, settings: Settings) -> None:
    """Delete a folder of the store."""
    shutil.rmtree(folder)
    if settings.scratch:  # what a stage that was killed has left there
        storage.remove_folder(settings.resources.scratch_for(folder))


def find_garbage(settings: Settings, keep_runs: int) -> list[Path]:
    """Folders that neither the last runs nor what they were made from need, nor a run that may go on, nor who starts
    from a registered model.
    """
    store, runs = settings.store, last_runs(settings.runs, sys.maxsize)
    kept = {artifact.path: artifact for artifact in _to_start_from(store, runs, runs[:keep_runs])}
    unfinished = set()
    for run in runs[:keep_runs]:
        for row in run.stages:
            artifact = store.find(row.name, row.fingerprint)
            if artifact:
                kept |= {ancestor.path: ancestor for ancestor in store.lineage(artifact)}
            else:
                unfinished.add((row.name, row.fingerprint))
    return [
        folder
        for folder in store.garbage(list(kept.values()))
        if (folder.parent.name, folder.name.split(".")[0]) not in unfinished
    ]


def _to_start_from(store: Store, runs: list[RunSummary], last: list[RunSummary]) -> list[Artifact]:
    """Weights and vocabularies of the newest champion and challenger of each model, and what the last runs start from.

    Args:
        store: of the artifacts.
        runs: all of them, the newest first.
        last: those that are kept.
    """
    holders: dict[tuple[str, str], RegisteredModel] = {}
    for model in [run.model for run in runs if run.model]:
        for alias in model.aliases:
            holders.setdefault((model.name, alias), model)
    wanted = [part for model in holders.values() for part in model.made_of.items()]
    for run in last:
        places = [Path(run.config.get(section, {}).get("start_from", "")) for section in MADE_OF]
        wanted += [(place.parent.name, place.name) for place in places if place.parent.parent == store.root]
    return [artifact for stage, fingerprint in wanted if (artifact := store.find(stage, fingerprint))]


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
