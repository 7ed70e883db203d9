"""`nmt artifacts`: what the store holds, where it comes from, and what can go."""

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_core.errors import ArtifactError, ConfigError

if TYPE_CHECKING:
    from flows.settings import Settings

artifacts = typer.Typer(help="Look at what the stages have made, and free space.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A fingerprint's first digits, STAGE/FINGERPRINT, or STAGE for its newest.")]


@artifacts.command("ls")
def list_artifacts(stage: Annotated[str | None, typer.Argument(help="Only those of this stage.")] = None) -> None:
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
    """Show an artifact's files and what its stage reported."""
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
    """Show what an artifact was made from."""
    from flows.display.progress import terminal
    from flows.retention.inspection import find_artifact, lineage_tree
    from flows.settings import Settings

    store = Settings.load().store
    terminal(to_stderr=False).print(lineage_tree(store, find_artifact(store, name)))


@artifacts.command("verify")
def verify_artifacts(
    name: Annotated[
        str | None, typer.Argument(help="A fingerprint's first digits, STAGE/FINGERPRINT, or STAGE for its newest.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every artifact of this machine.")] = False,
) -> None:
    """Read an artifact and what it was made from, and compare all files with their manifests."""
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
        console.print(f"{artifact.short} {damage or 'whole'}", soft_wrap=True)
    if damaged:
        raise ArtifactError(
            f"{damaged:,} of {len(checked):,} artifacts are damaged, as listed above: a run that needs one of "
            "them makes it anew, or fetches it from the shared store"
        )


@artifacts.command("gc")
def collect_garbage(
    keep_runs: Annotated[int, typer.Option(min=0, help="Keep what this many last runs of each recipe need.")] = 5,
    older_than: Annotated[
        int, typer.Option(min=0, metavar="DAYS", help="Of the shared store, only what is as old as this.")
    ] = 30,
    unfinished: Annotated[
        int, typer.Option(min=0, metavar="DAYS", help="Of interrupted stages, only what is as old as this.")
    ] = 30,
    gone: Annotated[
        list[str] | None, typer.Option(metavar="REGISTRY", help="A registry that is there no more, and is not asked.")
    ] = None,
    forget: Annotated[
        list[str] | None, typer.Option(metavar="MARK", help="The mark of a model that is there no more: take it away.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only show what would go.")] = False,
) -> None:
    """Show what no recent run, registered model or pin needs, and delete it with --yes."""
    from flows.display import reports
    from flows.display.progress import terminal
    from flows.registry.marks import forget_marks
    from flows.retention.garbage import garbage
    from flows.settings import Settings

    settings = Settings.load()
    say = partial(terminal(to_stderr=False).print, soft_wrap=True)
    forget_marks(settings.store, forget or ())
    rubbish = garbage(settings, keep_runs, older_than, unfinished_days=unfinished, gone=gone or (), note=say)
    for one in rubbish:
        say(f"{reports.size(one.bytes):>10}  {one.name}")
        if yes:
            one.remove()
    done = "freed" if yes else "would be freed; nothing was deleted: add --yes to delete"
    freed = reports.size(sum(one.bytes for one in rubbish))
    say(f"{freed} in {len(rubbish)} folders {done}")
    if parts := _unfinished_uploads(settings, older_than):
        say(parts)


def _unfinished_uploads(settings: "Settings", days: int) -> str:
    """What a killed upload has left in the shared store, and how to have it removed; nothing, if there is none."""
    from nmt_core.store.objects import Objects

    address = settings.shared_store
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


@artifacts.command("pin")
def pin_artifact(name: Name, why: Annotated[str, typer.Option(help="The reason, for those who come later.")]) -> None:
    """Keep an artifact and what it was made from, whatever gc removes."""
    _pin(name, why, "is pinned: gc keeps it and what it was made from")


@artifacts.command("unpin")
def unpin_artifact(name: Name) -> None:
    """Let gc remove an artifact again."""
    _pin(name, None, "is no longer pinned")


def _pin(name: str, why: str | None, done: str) -> None:
    from flows.display.progress import terminal
    from flows.retention.inspection import find_artifact
    from flows.settings import Settings

    store = Settings.load().store
    artifact = find_artifact(store, name)
    store.pin(artifact, why)
    terminal(to_stderr=False).print(f"{artifact.stage}/{artifact.fingerprint} {done}", soft_wrap=True)
