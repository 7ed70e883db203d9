"""`nmt promote`, `nmt rollback` and `nmt models`: change and list the champions of registered models."""

from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(metavar="MODEL", help="Name of a registered model (`nmt models` lists them).")]
Pair = Annotated[
    str,
    typer.Option(
        "--pair", metavar="PAIR", help="Pair with a champion of its own, such as en-de. By default all pairs."
    ),
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason, which is recorded with the change.")]


def promote(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL[/VERSION]",
            help="Name of a registered model, with an optional version. By default its challenger.",
        ),
    ],
    why: Why,
    force: Annotated[bool, typer.Option("--force", help="Promote even a version that was rolled back before.")] = False,
    pair: Pair = "",
) -> None:
    """Make a version of a registered model the champion, regardless of the verdict of the gate."""
    from flows.registry.champions import Author
    from flows.registry.manual import promote_by_hand
    from flows.settings import Settings

    name, _, version = model.removeprefix("models:/").partition("/")
    author = Author(by="hand", why=why)
    typer.echo(promote_by_hand(name, version, author, Settings.load(), force=force, pair=pair))


def rollback(model: Name, why: Why, pair: Pair = "") -> None:
    """Restore the previous champion. No later run promotes the version that is rolled back."""
    from flows.registry.champions import Author
    from flows.registry.manual import roll_back_by_hand
    from flows.settings import Settings

    typer.echo(roll_back_by_hand(model, Author(by="hand", why=why), Settings.load(), pair))


def models(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="Name of a registered model whose versions and history to show.")
    ] = "",
) -> None:
    """List the registered models, or the versions of one and all changes of its champion."""
    from flows.registry.manual import history_of, names
    from flows.settings import Settings

    settings = Settings.load()
    if not model:
        for name, champion in names(settings):
            typer.echo(f"{name:<30} " + (f"champion: version {champion}" if champion else "no champion"))
        return
    versions, events = history_of(model, settings)
    for row in versions:
        aliases = f" ({', '.join(row.aliases)})" if row.aliases else ""
        typer.echo(f"version {row.version}{aliases}, BLEU {row.bleu}: {row.verdict}")
    typer.echo("\nChanges of the champion:" if events else "\nThe champion was never changed.")
    for event in events:
        typer.echo(f"  {event}")
