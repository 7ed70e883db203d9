"""`nmt artifacts`: what the store holds, where it comes from, and what can go."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import timedelta

from rich.markdown import Markdown
from rich.table import Table
from rich.tree import Tree

from flows.display import reports
from flows.display.progress import styled, terminal
from flows.registry.marks import forget_marks
from flows.retention.garbage import UNFINISHED_DAYS, garbage
from flows.settings import Settings
from nmt_core.errors import ArtifactError, ConfigError
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Manifest, Store
from nmt_core.store.objects import Objects

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
    console = terminal(to_stderr=False)
    console.print(table)
    for problem in unreadable:
        console.print(problem, soft_wrap=True)


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
    store, console = Settings.load().store, terminal(to_stderr=False)
    artifacts = _with_parents(store, _resolve(store, name)) if name else sorted(store.published(), key=str)
    damaged = []
    for artifact in artifacts:
        damage = artifact.damage(thorough=True, anew=True)
        if damage:
            damaged.append(artifact)
        console.print(f"{artifact.short} {damage or 'whole'}", soft_wrap=True)
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
    console = terminal(to_stderr=False)
    artifact = _resolve(Settings.load().store, name)
    manifest = artifact.manifest()
    console.print(f"{artifact.stage}/{artifact.fingerprint}\n{artifact.path}", soft_wrap=True)
    console.print(f"recipe {manifest.recipe}, made {manifest.created:%Y-%m-%d %H:%M} on {manifest.host}")
    for file, output in manifest.outputs.items():
        console.print(f"  {reports.size(output.bytes):>10}  {file}")
    console.print(Markdown(reports.markdown(artifact.stage, artifact.report())))


def show_lineage(name: str) -> None:
    """Print what an artifact was made from, as a tree."""
    store = Settings.load().store
    artifact = _resolve(store, name)
    tree = Tree(artifact.short)
    _grow(tree, artifact, store, {artifact.fingerprint})
    terminal(to_stderr=False).print(tree)


def _resolve(store: Store, name: str) -> Artifact:
    """The artifact of that name; a stage by itself means its newest."""
    newest = store.newest(name, 1) if name in STAGES else []
    return newest[0] if newest else store.resolve(name)


def _grow(tree: Tree, artifact: Artifact, store: Store, seen: set[str]) -> None:
    if continued_from := artifact.report().get("continued_from"):
        tree.add(styled(f"{continued_from} ", ("(its first updates)", "dim")))
    for stage, fingerprint in artifact.manifest().inputs.items():
        parent = store.local(stage, fingerprint)
        short = f"{stage}/{fingerprint[:12]}"
        if not parent:
            tree.add(styled(f"{short} ", ("(no longer here)", "dim")))
        elif fingerprint in seen:
            tree.add(styled(f"{short} ", ("(see above)", "dim")))
        else:
            seen.add(fingerprint)
            _grow(tree.add(short), parent, store, seen)


def pin_artifact(name: str, why: str | None) -> None:
    """Keep an artifact and all that it was made from, whatever `gc` is told; without a reason, no longer."""
    store = Settings.load().store
    artifact = _resolve(store, name)
    store.pin(artifact, why)
    done = "is no longer pinned" if why is None else "is pinned: gc keeps it and what it was made from"
    terminal(to_stderr=False).print(f"{artifact.stage}/{artifact.fingerprint} {done}", soft_wrap=True)


def collect_garbage(
    keep_runs: int,
    *,
    delete: bool,
    shared_days: int = 30,
    unfinished_days: int = UNFINISHED_DAYS,
    gone: Collection[str] = (),
    forget: Collection[str] = (),
) -> None:
    """Print what nobody needs, here and in the shared store; delete it only if told to.

    Args:
        keep_runs, shared_days, unfinished_days, gone: as of `garbage`.
        delete: whether to delete it.
        forget: ids of marks to take away first.

    Raises:
        NmtError: a registry or the shared store does not answer, or there is no such mark.
    """
    console, settings = terminal(to_stderr=False), Settings.load()

    def say(line: str) -> None:
        console.print(line, soft_wrap=True)

    forget_marks(settings.store, forget)
    rubbish = garbage(settings, keep_runs, shared_days, unfinished_days=unfinished_days, gone=gone, note=say)
    for one in rubbish:
        say(f"{reports.size(one.bytes):>10}  {one.name}")
        if delete:
            one.remove()
    done = "freed" if delete else "would be freed; nothing was deleted: add --yes to delete"
    freed = reports.size(sum(one.bytes for one in rubbish))
    say(f"{freed} in {len(rubbish)} folders {done}")
    if parts := _unfinished(shared_days):
        say(parts)


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
