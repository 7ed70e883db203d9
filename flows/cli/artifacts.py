"""`nmt artifacts`: list, inspect, verify, pin and delete artifacts."""

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_core.errors import ArtifactError, ConfigError, counted

if TYPE_CHECKING:
    from flows.settings import Settings

artifacts = typer.Typer(help="Inspect the artifacts that stages have made, and free disk space.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(help="First digits of a fingerprint, STAGE/FINGERPRINT, or STAGE for its newest artifact.")
]


@artifacts.command("ls")
def list_artifacts(
    stage: Annotated[str | None, typer.Argument(help="List only artifacts of this stage.")] = None,
) -> None:
    """List artifacts, newest first."""
    from flows.display.progress import terminal
    from flows.retention.inspection import artifact_table
    from flows.settings import Settings

    console = terminal(to_stderr=False)
    table, problems = artifact_table(Settings.load().store.published(stage))
    console.print(table)
    for problem in problems:
        console.print(problem, soft_wrap=True)


@artifacts.command("show")
def show_artifact(name: Name) -> None:
    """Show the files of an artifact and the report of its stage."""
    from rich.markdown import Markdown

    from flows.display import reports
    from flows.display.progress import terminal
    from flows.retention.inspection import find_artifact
    from flows.settings import Settings

    console = terminal(to_stderr=False)
    artifact = find_artifact(Settings.load().store, name)
    manifest = artifact.manifest()
    console.print(f"{artifact.stage}/{artifact.fingerprint}\n{artifact.path}", soft_wrap=True)
    console.print(f"recipe {manifest.recipe}, made {manifest.created:%Y-%m-%d %H:%M} on {manifest.host}")
    for file, output in manifest.outputs.items():
        console.print(f"  {reports.size(output.bytes):>10}  {file}")
    console.print(Markdown(reports.markdown(artifact.stage, artifact.report())))


@artifacts.command("lineage")
def show_lineage(name: Name) -> None:
    """Show the artifacts from which an artifact was made, as a tree."""
    from flows.display.progress import terminal
    from flows.retention.inspection import find_artifact, lineage_tree
    from flows.settings import Settings

    store = Settings.load().store
    terminal(to_stderr=False).print(lineage_tree(store, find_artifact(store, name)))


@artifacts.command("verify")
def verify_artifacts(
    name: Annotated[
        str | None,
        typer.Argument(help="First digits of a fingerprint, STAGE/FINGERPRINT, or STAGE for its newest artifact."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Check every artifact on this machine.")] = False,
) -> None:
    """Check all files of an artifact, and of the artifacts it was made from, against their manifests."""
    from flows.display.progress import terminal
    from flows.retention.inspection import find_artifact, with_parents
    from flows.settings import Settings

    if (name is None) != everything:
        raise ConfigError("nmt artifacts verify: name an artifact, or give --all for every artifact of this machine")
    store, console = Settings.load().store, terminal(to_stderr=False)
    checked = with_parents(store, find_artifact(store, name)) if name else sorted(store.published(), key=str)
    damaged = 0
    for artifact in checked:
        damage = artifact.damage(thorough=True, anew=True)
        damaged += bool(damage)
        console.print(f"{artifact.short} {damage or 'intact'}", soft_wrap=True)
    if damaged:
        raise ArtifactError(
            f"damaged: {damaged:,} of {counted(len(checked), 'artifact')}, as listed above: a run that needs a "
            "damaged artifact makes it again, or fetches it from the shared store"
        )


@artifacts.command("gc")
def collect_garbage(
    keep_runs: Annotated[
        int, typer.Option(min=0, help="Number of latest runs of each recipe whose artifacts are kept.")
    ] = 5,
    older_than: Annotated[
        int, typer.Option(min=0, metavar="DAYS", help="Delete from the shared store only what is older than this.")
    ] = 30,
    unfinished: Annotated[
        int,
        typer.Option(
            min=0, metavar="DAYS", help="Delete remains of interrupted stages only if they are older than this."
        ),
    ] = 30,
    gone: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REGISTRY",
            help="Address of a registry that no longer exists, which is not queried. Can be repeated.",
        ),
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MARK", help="Id of a mark to remove because its model no longer exists. Can be repeated."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete. Without this option, gc only lists what it would delete.")
    ] = False,
) -> None:
    """List what no recent run, registered model or pin needs, and delete it with --yes."""
    from flows.display import reports
    from flows.display.progress import terminal
    from flows.registry.marks import forget_marks
    from flows.retention.garbage import garbage
    from flows.settings import Settings

    settings = Settings.load()
    note = partial(terminal(to_stderr=False).print, soft_wrap=True)
    forget_marks(settings.store, forget or ())
    unneeded = garbage(settings, keep_runs, older_than, unfinished_days=unfinished, gone=gone or (), note=note)
    for item in unneeded:
        note(f"{reports.size(item.bytes):>10}  {item.name}")
        if yes:
            item.remove()
    done = "freed" if yes else "would be freed; nothing was deleted: add --yes to delete it"
    freed = reports.size(sum(item.bytes for item in unneeded))
    note(f"{freed} in {counted(len(unneeded), 'folder')} {done}")
    if warning := _unfinished_uploads(settings, older_than):
        note(warning)


def _unfinished_uploads(settings: "Settings", days: int) -> str | None:
    """Return a warning about the parts that killed uploads have left in the shared store, or None."""
    from nmt_core.store.objects import Objects

    address = settings.shared_store
    try:
        uploads = Objects(address).unfinished(timedelta(days=days)) if address else None
    except ArtifactError:  # listing uploads may need a permission that nothing else here needs
        return None
    if not uploads:
        return None
    return (
        f"{counted(len(uploads), 'upload')} to {address} started more than {days} days ago and never completed. Their "
        "parts take up space, and gc does not remove them: set the bucket's rule AbortIncompleteMultipartUpload "
        "(docs/how-to/share-artifacts.md shows how)"
    )


@artifacts.command("pin")
def pin_artifact(name: Name, why: Annotated[str, typer.Option(help="Reason for the pin.")]) -> None:
    """Protect an artifact, and the artifacts it was made from, from gc."""
    _pin(name, why, "is pinned: gc keeps it and the artifacts it was made from")


@artifacts.command("unpin")
def unpin_artifact(name: Name) -> None:
    """Remove the pin of an artifact, so that gc may delete it again."""
    _pin(name, None, "is no longer pinned")


def _pin(name: str, why: str | None, done: str) -> None:
    from flows.display.progress import terminal
    from flows.retention.inspection import find_artifact
    from flows.settings import Settings

    store = Settings.load().store
    artifact = find_artifact(store, name)
    store.pin(artifact, why)
    terminal(to_stderr=False).print(f"{artifact.stage}/{artifact.fingerprint} {done}", soft_wrap=True)
