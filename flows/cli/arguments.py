"""Arguments and options that several commands of `nmt` share. Imports nothing slow."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from flows.runs.selection import STEPS, Selection, StepName

if TYPE_CHECKING:
    from flows.display.progress import Detail
    from flows.settings import Settings
    from nmt_core.config import PipelineConfig

DEBUG = "--debug"


def _step(name: str) -> StepName:
    if name not in STEPS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(STEPS)}")
    return name


def _steps(typed: str) -> list[str]:
    """Return the stages that begin as typed. The shell completes a word with them."""
    return [name for name in STEPS if name.startswith(typed)]


def _recipes(typed: str) -> list[str]:
    """Return the recipes of the package that begin as typed. Where none does, the shell completes names of files."""
    from nmt_core.recipes.recipe import recipe_names

    return [name for name in recipe_names() if name.startswith(typed)]


def _options(typed: str) -> list[str]:
    """Return the options of recipes that begin as typed, and sections of several options while one is being typed."""
    from nmt_core.recipes.reference import dotted_options

    return [f"{option}=" for option in dotted_options() if option.startswith(typed)]


Recipe = Annotated[
    str,
    typer.Argument(
        help="Name of a recipe (`nmt recipes` lists them), or path of a YAML file.", autocompletion=_recipes
    ),
]
DeployedRecipes = Annotated[
    list[str] | None,
    typer.Argument(help="Names or paths of recipes to deploy, with their stages. By default only quickstart."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Change one value of the recipe. Can be repeated.",
        autocompletion=_options,
    ),
]
From = Annotated[
    StepName,
    typer.Option("--from", metavar="STAGE", help="Start at this stage. Artifacts of earlier stages must exist."),
]
Until = Annotated[StepName, typer.Option("--until", metavar="STAGE", help="Stop after this stage.")]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force",
        parser=_step,
        metavar="STAGE",
        help="Run this stage even if its artifact exists. Can be repeated.",
        autocompletion=_steps,
    ),
]
Beam = Annotated[
    int | None, typer.Option("--beam", help="Beam size. 1 is the fastest. By default the value of the model.")
]
SearchOverrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="search.KEY=VALUE", help="Change one search option of the model. Can be repeated."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as one line of JSON on stdout; progress goes to stderr.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print the lines that stages write to their log in Prefect, too.")
]
Debug = Annotated[bool, typer.Option(DEBUG, help="Show tracebacks of errors, and the log of Prefect.")]


def detail_of(*, quiet: bool, verbose: bool) -> "Detail":
    """Return how much a run prints.

    Raises:
        BadParameter: the options contradict each other.
    """
    if quiet and verbose:
        raise typer.BadParameter("--quiet and --verbose contradict each other: give one of them")
    return "quiet" if quiet else "verbose" if verbose else "normal"


def read_config(recipe: str, overrides: Sequence[str] | None, *, debug: bool) -> "PipelineConfig":
    """Read a recipe, and look up the models and vocabularies that it starts from.

    Raises:
        NmtError: the recipe or a model that it starts from does not exist or is invalid.
    """
    from flows.runs.start_from import resolved
    from flows.settings import Settings
    from nmt_core.recipes.recipe import load_recipe

    return resolved(load_recipe(recipe, overrides or ()), Settings.load(), debug=debug)


def selection_of(first: StepName, last: StepName, force: Sequence[str] | None) -> Selection:
    """Return the steps that `--from`, `--until` and `--force` select.

    Raises:
        ConfigError: the options contradict each other.
    """
    return Selection(first, last, tuple(cast(StepName, name) for name in force or ()))


def check_recipes(recipes: Sequence[str], settings: "Settings") -> None:
    """Check recipes and the files that they name, as `nmt plan` does.

    Raises:
        NmtError: a recipe does not exist, is invalid, or names a file that does not exist.
    """
    from nmt_core.recipes.recipe import load_recipe
    from nmt_core.stages.table import plan

    for recipe in recipes:
        plan(load_recipe(recipe), settings.store)
