"""`nmt artifacts`: its commands; see `cli.py`."""

from typing import Annotated

import typer

artifacts = typer.Typer(help="Look at what the stages have made, and free space.", no_args_is_help=True)


@artifacts.command("ls")
def list_artifacts(stage: Annotated[str | None, typer.Argument(help="Only those of this stage.")] = None) -> None:
    """List artifacts, newest first."""
    from flows.cli.artifact_commands import list_artifacts

    list_artifacts(stage)


Name = Annotated[str, typer.Argument(help="A fingerprint's first digits, STAGE/FINGERPRINT, or STAGE for its newest.")]


@artifacts.command("show")
def show_artifact(name: Name) -> None:
    """Show an artifact's files and what its stage reported."""
    from flows.cli.artifact_commands import show_artifact

    show_artifact(name)


@artifacts.command("lineage")
def show_lineage(name: Name) -> None:
    """Show what an artifact was made from."""
    from flows.cli.artifact_commands import show_lineage

    show_lineage(name)


@artifacts.command("verify")
def verify_artifacts(
    name: Annotated[
        str | None, typer.Argument(help="A fingerprint's first digits, STAGE/FINGERPRINT, or STAGE for its newest.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every artifact of this machine.")] = False,
) -> None:
    """Read an artifact and what it was made from, and compare all files with their manifests."""
    from flows.cli.artifact_commands import verify

    verify(name, everything=everything)


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
    from flows.cli.artifact_commands import collect_garbage

    collect_garbage(
        keep_runs,
        delete=yes,
        shared_days=older_than,
        unfinished_days=unfinished,
        gone=gone or (),
        forget=forget or (),
    )


@artifacts.command("pin")
def pin_artifact(name: Name, why: Annotated[str, typer.Option(help="The reason, for those who come later.")]) -> None:
    """Keep an artifact and what it was made from, whatever gc removes."""
    from flows.cli.artifact_commands import pin_artifact

    pin_artifact(name, why)


@artifacts.command("unpin")
def unpin_artifact(name: Name) -> None:
    """Let gc remove an artifact again."""
    from flows.cli.artifact_commands import pin_artifact

    pin_artifact(name, None)
