"""Arguments and options that several commands of `nmt` have in common. Imports nothing slow."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from flows.runs.selection import STEPS, Selection, StepName

if TYPE_CHECKING:
    from flows.settings import Settings
    from nmt_core.config import PipelineConfig

DEBUG = "--debug"


def _step(name: str) -> StepName:
    if name not in STEPS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(STEPS)}")
    return name


Recipe = Annotated[str, typer.Argument(help="A recipe's name (`nmt recipes` lists them) or the path of a YAML file.")]
DeployedRecipes = Annotated[
    list[str] | None,
    typer.Argument(help="Names or paths of recipes; left out: those of the package, with stages of the first."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one value of the recipe. May be repeated."),
]
From = Annotated[
    StepName, typer.Option("--from", metavar="STAGE", help="Begin here; earlier stages must have been made.")
]
Until = Annotated[StepName, typer.Option("--until", metavar="STAGE", help="End after this stage.")]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force", parser=_step, metavar="STAGE", help="Run this stage even if it has been made. May be repeated."
    ),
]
Beam = Annotated[int | None, typer.Option("--beam", help="Beam size, if not the model's own; 1 is the fastest.")]
SearchOverrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="search.KEY=VALUE", help="Change how the model searches. May be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as the last line; progress goes to stderr.")]
Debug = Annotated[bool, typer.Option(DEBUG, help="Show Prefect's log, and tracebacks of errors.")]


def read_config(recipe: str, overrides: Sequence[str] | None, *, debug: bool) -> "PipelineConfig":
    """Read a recipe, and find what it starts from.

    Raises:
        NmtError: the recipe is not there, is wrong, or starts from something that is not there.
    """
    from flows.runs.start_from import resolved
    from flows.settings import Settings
    from nmt_core.recipes.recipe import load_recipe

    return resolved(load_recipe(recipe, overrides or ()), Settings.load(), debug=debug)


def selection_of(first: StepName, last: StepName, force: Sequence[str] | None) -> Selection:
    """Return the steps that `--from`, `--until` and `--force` select.

    Raises:
        ConfigError: they contradict each other.
    """
    return Selection(first, last, tuple(cast(StepName, name) for name in force or ()))


def check_recipes(recipes: Sequence[str], settings: "Settings") -> None:
    """Check recipes as `nmt plan` does: what is wrong with one, or with its files, is said before anything starts.

    Raises:
        NmtError: a recipe is not there, is wrong, or names files that are not there.
    """
    from nmt_core.recipes.recipe import load_recipe
    from nmt_core.stages.table import plan

    for recipe in recipes:
        plan(load_recipe(recipe), settings.store)
