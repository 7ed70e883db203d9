"""`nmt recipes`: list the recipes of the package, or upgrade a recipe of your own."""

from pathlib import Path
from typing import Annotated

import typer

from nmt_core.errors import counted


def recipes(
    options: Annotated[
        bool, typer.Option("--options", help="Print a reference of all options of recipes, as Markdown.")
    ] = False,
    upgrade: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rewrite a recipe in place, so that it uses the present names of options."),
    ] = None,
) -> None:
    """List the recipes of the package."""
    from nmt_core.recipes.recipe import load_recipe, recipe_names, upgrade_recipe
    from nmt_core.recipes.reference import option_reference

    if options:
        typer.echo(option_reference(), nl=False)
        return
    if upgrade:
        changes = upgrade_recipe(upgrade)
        for change in changes:
            typer.echo(change)
        typer.echo(f"{upgrade}: {counted(len(changes), 'change')}" if changes else f"{upgrade}: no changes needed")
        return
    for name in recipe_names():
        typer.echo(f"{name:<20} {load_recipe(name).description}")
