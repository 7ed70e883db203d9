"""`nmt`: the command line, at the top of the house. What a command needs is imported when it is called."""

import gc
import importlib.metadata
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from flows.cli import promotion
from flows.cli.arguments import DEBUG, AsJson, Debug, Force, From, Overrides, Recipe, Until
from flows.cli.artifacts import artifacts
from flows.cli.interruption import Stopped
from flows.cli.models import explain, translate
from flows.cli.operations import operations
from flows.cli.report import report
from flows.runs.selection import Selection, StepName
from nmt_core.errors import NmtError, words_of

if TYPE_CHECKING:
    from nmt_core.config import PipelineConfig

app = typer.Typer(
    help="Retrain a neural translation model end to end, from one recipe, on any machine.\n\n"
    "Start with `nmt run quickstart`: a toy that takes minutes and needs no network.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(artifacts, name="artifacts")
app.add_typer(operations)


def _selection(first: StepName, last: StepName, force: list[str] | None) -> Selection:
    return Selection(first, last, tuple(cast(StepName, name) for name in force or ()))


def _configuration(recipe: str, overrides: list[str] | None) -> "PipelineConfig":
    """Read a recipe, and find what it starts from."""
    from flows.runs.start_from import resolved
    from flows.settings import Settings
    from nmt_core.recipes.recipe import load_recipe

    return resolved(load_recipe(recipe, overrides or ()), Settings.load(), debug=DEBUG in sys.argv)


def _typed(recipe: str, overrides: list[str] | None) -> list[str]:
    return [recipe, *(part for override in overrides or () for part in ("--set", override))]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nmt-pipeline {importlib.metadata.version('nmt-pipeline')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Retrain a neural translation model end to end, from one recipe, on any machine."""


@app.command()
def run(
    recipe: Recipe,
    overrides: Overrides = None,
    from_: From = "download",
    until: Until = "register",
    force: Force = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run a recipe from its corpora to a registered model. What has been made before is reused.

    The stages: download, clean, split, tokenizer, encode, train, average, export, evaluate, register.
    """
    from flows.cli.run import run

    typed = _typed(recipe, overrides)
    run(_configuration(recipe, overrides), _selection(from_, until, force), as_json=as_json, debug=debug, typed=typed)


@app.command()
def stage(
    name: Annotated[StepName, typer.Argument(help="The stage.")],
    recipe: Recipe,
    overrides: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Run it even if it has been made.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run one stage by itself. What it needs of earlier stages must have been made."""
    from flows.cli.run import run

    selection = Selection(name, name, (name,) if force else ())
    typed = _typed(recipe, overrides)
    run(_configuration(recipe, overrides), selection, as_json=as_json, debug=debug, typed=typed)


@app.command()
def compare(
    recipes: Annotated[
        list[str], typer.Argument(help="Recipes, each with changes of its own if wanted: RECIPE+SECTION.KEY=VALUE.")
    ],
    overrides: Overrides = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each, with seeds from its train.seed on.")] = 1,
    corpus_of: Annotated[
        str, typer.Option(metavar="RECIPE", help="Where all take text, cleaning, tokenizer and encoding from.")
    ] = "",
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw BLEU by the length of the source there, a curve for each recipe."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Run several recipes up to `evaluate`, and print one table. What they have in common is made once.

    --set changes all of them; what a recipe changes itself goes before it.
    """
    from flows.cli.compare import Form, compare
    from flows.comparison.contenders import contenders

    wanted = contenders(recipes, overrides or [], seeds, corpus_of, debug=debug)
    form: Form = "json" if as_json else "markdown" if markdown else "table"
    compare(wanted, form=form, figure=figure, debug=debug)


@app.command()
def plan(
    recipe: Recipe,
    overrides: Overrides = None,
    from_: From = "download",
    until: Until = "register",
    force: Force = None,
    debug: Debug = False,
) -> None:
    """Check a recipe and show what a run would do, and why. Touches nothing."""
    from flows.cli.plan import show_plan

    show_plan(_configuration(recipe, overrides), _selection(from_, until, force))


@app.command()
def why(
    stage: Annotated[StepName, typer.Argument(help="The stage.")],
    recipe: Recipe,
    overrides: Overrides = None,
    debug: Debug = False,
) -> None:
    """Say why a stage would run, or would be reused."""
    from flows.cli.plan import show_reason

    show_reason(stage, _configuration(recipe, overrides))


@app.command()
def manifest(
    recipe: Recipe,
    overrides: Overrides = None,
    launcher: Annotated[str, typer.Option(help="slurm, trainjob or pytorchjob, if not that of NMT_LAUNCHER.")] = "",
    debug: Debug = False,
) -> None:
    """Print what would be submitted to a cluster to train a recipe."""
    from flows.cli.manifest import show_manifest

    show_manifest(_configuration(recipe, overrides), launcher)


@app.command()
def recipes(
    options: Annotated[
        bool, typer.Option("--options", help="Print all options of a recipe instead, as Markdown.")
    ] = False,
    upgrade: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rewrite a recipe that uses earlier names of options, in place.")
    ] = None,
) -> None:
    """List the recipes that come with the package."""
    from nmt_core.recipes.recipe import load_recipe, recipe_names, upgrade_recipe
    from nmt_core.recipes.reference import option_reference

    if options:
        typer.echo(option_reference(), nl=False)
        return
    if upgrade:
        changes = upgrade_recipe(upgrade)
        for change in changes:
            typer.echo(change)
        typer.echo(f"{upgrade}: {len(changes)} changes" if changes else f"{upgrade}: uses present names already")
        return
    for name in recipe_names():
        typer.echo(f"{name:<20} {load_recipe(name).description}")


app.command()(translate)
app.command()(explain)


for command in (report, promotion.promote, promotion.rollback, promotion.models):
    app.command()(command)


def main() -> None:
    """Run a command; exit with 1 after an error, 2 after a usage error, 75 if preempted, 130 after Ctrl-C."""
    debug = DEBUG in sys.argv
    try:
        app()
    except Stopped as stop:
        typer.echo(f"nmt: {stop}", err=True)
        sys.exit(stop.exit_code)
    except NmtError as error:
        if debug:
            traceback.print_exc()
        typer.echo(f"nmt: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            raise
        sys.exit(f"nmt: unexpected {type(error).__name__}: {words_of(error, most=1_000)}: --debug shows the traceback")
    finally:
        gc.freeze()  # else the interpreter spends a second on collecting what its exit frees anyway
