"""`nmt run` and `nmt stage`: run a recipe, or one stage of it."""

from collections.abc import Sequence
from typing import Annotated

import typer

from flows.cli.arguments import (
    AsJson,
    Debug,
    Force,
    From,
    Overrides,
    Quiet,
    Recipe,
    Until,
    Verbose,
    detail_of,
    read_config,
    selection_of,
)
from flows.runs.selection import Selection, StepName


def run(
    recipe: Recipe,
    overrides: Overrides = None,
    from_: From = "download",
    until: Until = "register",
    force: Force = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    debug: Debug = False,
) -> None:
    """Run a recipe from its corpora to a registered model. Existing artifacts are reused.

    The stages are download, clean, split, tokenizer, encode, train, average, export, evaluate, register.
    """
    from flows.cli.in_process import run_recipe

    detail = detail_of(quiet=quiet, verbose=verbose)
    config, selection = read_config(recipe, overrides, debug=debug), selection_of(from_, until, force)
    run_recipe(config, selection, as_json=as_json, detail=detail, debug=debug, typed=_typed(recipe, overrides))


def stage(
    name: Annotated[StepName, typer.Argument(help="Name of the stage.")],
    recipe: Recipe,
    overrides: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Run the stage even if its artifact exists.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    debug: Debug = False,
) -> None:
    """Run one stage alone. The artifacts that it needs of earlier stages must exist."""
    from flows.cli.in_process import run_recipe

    detail = detail_of(quiet=quiet, verbose=verbose)
    selection = Selection(name, name, (name,) if force else ())
    config = read_config(recipe, overrides, debug=debug)
    run_recipe(config, selection, as_json=as_json, detail=detail, debug=debug, typed=_typed(recipe, overrides))


def _typed(recipe: str, overrides: Sequence[str] | None) -> list[str]:
    return [recipe, *(part for override in overrides or () for part in ("--set", override))]
