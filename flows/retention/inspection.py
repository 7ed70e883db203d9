"""Artifacts of this machine, as tables and trees: which there are, and what each was made from."""

from collections.abc import Iterable
from contextlib import suppress

from rich.table import Table
from rich.tree import Tree

from flows.display import reports
from flows.display.progress import styled
from nmt_core.errors import ArtifactError
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Manifest, Store

_DIGITS = 12


def find_artifact(store: Store, name: str) -> Artifact:
    """Return the artifact of that name; a stage by itself means its newest.

    Raises:
        ArtifactError: there is no such artifact, or more than one.
    """
    newest = store.newest(name, 1) if name in STAGES else []
    return newest[0] if newest else store.resolve(name)


def with_parents(store: Store, artifact: Artifact) -> list[Artifact]:
    """Return the artifact, and everything that it was made from that has a folder here, damaged or not."""
    artifacts = [artifact]
    for current in artifacts:
        with suppress(ArtifactError):
            parents = (Artifact(*pair, store.path(*pair)) for pair in current.manifest().inputs.items())
            artifacts += [parent for parent in parents if parent not in artifacts and parent.path.is_dir()]
    return artifacts


def artifact_table(artifacts: Iterable[Artifact]) -> tuple[Table, list[str]]:
    """Return a table of artifacts, newest first, and what is wrong with those that cannot be read."""
    table = Table()
    for column in ("artifact", "recipe", "made", "seconds", "size"):
        table.add_column(column, justify="right" if column in {"seconds", "size"} else "left", no_wrap=True)
    manifests, problems = _read(artifacts)
    for manifest in sorted(manifests, key=lambda manifest: manifest.created, reverse=True):
        short, made = f"{manifest.stage}/{manifest.fingerprint[:_DIGITS]}", f"{manifest.created:%Y-%m-%d %H:%M}"
        table.add_row(short, manifest.recipe, made, f"{manifest.seconds:.1f}", reports.size(manifest.size))
    return table, problems


def _read(artifacts: Iterable[Artifact]) -> tuple[list[Manifest], list[str]]:
    """The manifests of artifacts, and what is wrong with those that cannot be read."""
    manifests, problems = [], []
    for artifact in artifacts:
        try:
            manifests.append(artifact.manifest())
        except ArtifactError as error:
            problems.append(str(error))
    return manifests, sorted(problems)


def lineage_tree(store: Store, artifact: Artifact) -> Tree:
    """Return what an artifact was made from, as a tree."""
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
