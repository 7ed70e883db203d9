"""`nmt artifacts`: what the store holds, where it comes from, and what can go."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.tree import Tree

from flows import reports
from flows.garbage import garbage
from flows.settings import Settings
from nmt_core.artifacts import Artifact, Manifest, Store
from nmt_core.errors import ArtifactError, ConfigError
from nmt_core.objects import Objects
from nmt_core.stages import STAGES

_DIGITS = 12


def list_artifacts(stage: str | None) -> None:
    """Print the artifacts, newest first."""
    table = Table()
    for column in ("artifact", "recipe", "made", "seconds", "size"):
        table.add_column(column, justify="right" if column in {"seconds", "size"} else "left", no_wrap=True)
    manifests, unreadable = _read(Settings.load().store.published(stage))
    for manifest in sorted(manifests, key=lambda manifest: manifest.created, reverse=True):
        short, made = f"{manifest.stage}/{manifest.fingerprint[:_DIGITS]}", f"{manifest.created:%Y-%m-%d %H:%M}"
        table.add_row(short, manifest.recipe, made, f"{manifest.seconds:.1f}", reports.size(manifest.size))
    console = Console()
    console.print(table)
    for problem in unreadable:
        console.print(problem, markup=False, highlight=False, soft_wrap=True)


def _read(artifacts: Iterable[Artifact]) -> tuple[list[Manifest], list[str]]:
    """The manifests of artifacts, and what is wrong with those that cannot be read."""
    manifests, problems = [], []
    for artifact in artifacts:
        try:
            manifests.append(artifact.manifest())
        except ArtifactError as error:
            problems.append(str(error))
    return manifests, sorted(problems)


def verify(name: str | None, *, everything: bool) -> None:
    """Read the files of artifacts and compare them with their manifests.

    Args:
        name: an artifact; what it was made from is read as well, as far as it is here. None: it is not one alone.
        everything: read all artifacts of this machine.

    Raises:
        ConfigError: neither or both were asked for.
        ArtifactError: there is no such artifact, or one is damaged.
    """
    if (name is None) != everything:
        raise ConfigError("nmt artifacts verify: name an artifact, or give --all for every artifact of this machine")
    store, console = Settings.load().store, Console()
    artifacts = _with_parents(store, _resolve(store, name)) if name else sorted(store.published(), key=str)
    damaged = []
    for artifact in artifacts:
        damage = artifact.damage(thorough=True, anew=True)
        if damage:
            damaged.append(artifact)
        console.print(f"{artifact.short} {damage or 'whole'}", markup=False, highlight=False, soft_wrap=True)
    if damaged:
        raise ArtifactError(
            f"{len(damaged):,} of {len(artifacts):,} artifacts are damaged, as listed above: a run that needs one of "
            "them makes it anew, or fetches it from the shared store"
        )


def _with_parents(store: Store, artifact: Artifact) -> list[Artifact]:
    """The artifact, and everything that it was made from that has a folder here, damaged or not."""
    found = [artifact]
    for current in found:
        with suppress(ArtifactError):
            parents = (Artifact(*pair, store.path(*pair)) for pair in current.manifest().inputs.items())
            found += [parent for parent in parents if parent not in found and parent.path.is_dir()]
    return found


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
    newest = store.newest(name, 1) if name in STAGES else []
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
    rubbish = garbage(Settings.load(), keep_runs, shared_days)
    for one in rubbish:
        console.print(f"{reports.size(one.bytes):>10}  {one.name}", highlight=False, markup=False, soft_wrap=True)
        if delete:
            one.remove()
    done = "freed" if delete else "would be freed; nothing was deleted: add --yes to delete"
    freed = reports.size(sum(one.bytes for one in rubbish))
    console.print(f"{freed} in {len(rubbish)} folders {done}", highlight=False)
    if parts := _unfinished(shared_days):
        console.print(parts, highlight=False, markup=False, soft_wrap=True)


def _unfinished(days: int) -> str:
    """What a killed upload has left in the shared store, and how to have it removed; nothing, if there is none."""
    address = Settings.load().shared_store
    try:
        uploads = Objects(address).unfinished(timedelta(days=days)) if address else None
    except ArtifactError:  # it may need a right of its own, which nothing else does
        return ""
    if not uploads:
        return ""
    return (
        f"{len(uploads):,} uploads to {address} were begun more than {days} days ago and never ended. Their parts take "
        "space, and gc does not remove them: set the bucket's rule AbortIncompleteMultipartUpload (infra/README.md "
        "shows how)"
    )
