"""`nmt artifacts`: what the store holds, where it comes from, and what can go."""

from collections.abc import Collection

from rich.markdown import Markdown
from rich.table import Table
from rich.tree import Tree

from flows import reports
from flows.garbage import UNFINISHED_DAYS, garbage
from flows.marks import forget_marks
from flows.progress import styled, terminal
from flows.settings import Settings
from nmt_core.artifacts import Artifact, Store
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
    terminal(to_stderr=False).print(table)


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
    newest = store.all(name) if name in STAGES else []
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
