"""Artifacts of this machine as tables and trees, and the artifacts from which each was made."""

from collections.abc import Iterable
from contextlib import suppress

from rich.table import Table
from rich.tree import Tree

from flows.display import reports
from flows.display.progress import styled
from flows.display.tables import terminal_table
from nmt_core.errors import ArtifactError
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Manifest, Store

_DIGITS = 12


def find_artifact(store: Store, name: str) -> Artifact:
    """Return the artifact with this name. The name of a stage means its newest artifact.

    Raises:
        ArtifactError: no artifact matches the name, or several do.
    """
    newest = store.newest(name, 1) if name in STAGES else []
    return newest[0] if newest else store.resolve(name)


def with_parents(store: Store, artifact: Artifact) -> list[Artifact]:
    """Return an artifact and all artifacts from which it was made that have a folder here, even a damaged one."""
    artifacts = [artifact]
    for current in artifacts:
        with suppress(ArtifactError):
            parents = (Artifact(*pair, store.path(*pair)) for pair in current.manifest().inputs.items())
            artifacts += [parent for parent in parents if parent not in artifacts and parent.path.is_dir()]
    return artifacts


def artifact_table(artifacts: Iterable[Artifact]) -> tuple[Table, list[str]]:
    """Return a table of artifacts, newest first, and a message for each artifact that cannot be read."""
    table = terminal_table(("artifact", "recipe", "made", "seconds", "size"), {"seconds", "size"})
    manifests, problems = _read(artifacts)
    for manifest in sorted(manifests, key=lambda manifest: manifest.created, reverse=True):
        short, made = f"{manifest.stage}/{manifest.fingerprint[:_DIGITS]}", f"{manifest.created:%Y-%m-%d %H:%M}"
        table.add_row(short, manifest.recipe, made, f"{manifest.seconds:.1f}", reports.size(manifest.size))
    return table, problems


def _read(artifacts: Iterable[Artifact]) -> tuple[list[Manifest], list[str]]:
    """Return the manifests of artifacts, and a message for each that cannot be read, in alphabetical order."""
    manifests, problems = [], []
    for artifact in artifacts:
        try:
            manifests.append(artifact.manifest())
        except ArtifactError as error:
            problems.append(str(error))
    return manifests, sorted(problems)


def lineage_tree(store: Store, artifact: Artifact) -> Tree:
    """Return a tree of the artifacts from which an artifact was made."""
    tree = Tree(artifact.short)
    _grow(tree, artifact, store, {artifact.fingerprint})
    return tree


def _grow(tree: Tree, artifact: Artifact, store: Store, seen: set[str]) -> None:
    if continued_from := artifact.report().get("continued_from"):
        tree.add(styled(f"{continued_from} ", ("(its first updates)", "dim")))
    for stage, fingerprint in artifact.manifest().inputs.items():
        parent = store.local(stage, fingerprint)
        short = f"{stage}/{fingerprint[:_DIGITS]}"
        if not parent:
            tree.add(styled(f"{short} ", ("(no longer here)", "dim")))
        elif fingerprint in seen:
            tree.add(styled(f"{short} ", ("(see above)", "dim")))
        else:
            seen.add(fingerprint)
            _grow(tree.add(short), parent, store, seen)
