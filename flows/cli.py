"""`nmt`: the command line, at the top of the house. What a command needs is imported when it is called."""

import gc
import importlib.metadata
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, cast

import typer

from flows.cli_artifacts import artifacts
from flows.interruption import Stopped
from flows.selection import STEPS, Selection, StepName
from nmt_core.errors import NmtError

if TYPE_CHECKING:
    from nmt_core.config import PipelineConfig

_DEBUG = "--debug"

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


def _step(name: str) -> StepName:
    if name not in STEPS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(STEPS)}")
    return name


Recipe = Annotated[str, typer.Argument(help="A recipe's name (`nmt recipes` lists them) or the path of a YAML file.")]
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
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as the last line; progress goes to stderr.")]
Debug = Annotated[bool, typer.Option(_DEBUG, help="Show Prefect's log, and tracebacks of errors.")]


def _selection(first: StepName, last: StepName, force: list[str] | None) -> Selection:
    return Selection(first, last, tuple(cast(StepName, name) for name in force or ()))


def _configuration(recipe: str, overrides: list[str] | None) -> "PipelineConfig":
    """Read a recipe, and find what it starts from."""
    from flows.settings import Settings
    from flows.start_from import resolved
    from nmt_core.recipe import load_recipe

    return resolved(load_recipe(recipe, overrides or ()), Settings.load(), debug=_DEBUG in sys.argv)


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
    from flows.commands.run import run

    run(_configuration(recipe, overrides), _selection(from_, until, force), as_json=as_json, debug=debug)


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
    from flows.commands.run import run

    selection = Selection(name, name, (name,) if force else ())
    run(_configuration(recipe, overrides), selection, as_json=as_json, debug=debug)


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
    from flows.commands.plan import show_plan

    show_plan(_configuration(recipe, overrides), _selection(from_, until, force))


@app.command()
def why(
    stage: Annotated[StepName, typer.Argument(help="The stage.")],
    recipe: Recipe,
    overrides: Overrides = None,
    debug: Debug = False,
) -> None:
    """Say why a stage would run, or would be reused."""
    from flows.commands.plan import show_reason

    show_reason(stage, _configuration(recipe, overrides))


@app.command()
def manifest(
    recipe: Recipe,
    overrides: Overrides = None,
    launcher: Annotated[str, typer.Option(help="slurm, trainjob or pytorchjob, if not that of NMT_LAUNCHER.")] = "",
    debug: Debug = False,
) -> None:
    """Print what would be submitted to a cluster to train a recipe."""
    from flows.commands.manifest import show_manifest

    show_manifest(_configuration(recipe, overrides), launcher)


@app.command()
def recipes(
    knobs: Annotated[bool, typer.Option("--knobs", help="Print every knob of a recipe instead, as Markdown.")] = False,
) -> None:
    """List the recipes that come with the package."""
    from nmt_core.knobs import knob_reference
    from nmt_core.recipe import load_recipe, recipe_names

    if knobs:
        typer.echo(knob_reference(), nl=False)
        return
    for name in recipe_names():
        typer.echo(f"{name:<20} {load_recipe(name).description}")


@app.command()
def translate(
    model: Annotated[str, typer.Option(help="models:/NAME@champion, or the folder of an exported model.")],
    source: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="Text, TSV, CSV, JSONL or Parquet, packed or not; a folder or pattern of them, here or as s3://...; "
            "left out: stdin.",
        ),
    ] = "-",
    target: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write, in the format of its suffix; a folder, if the input is one; left out: stdout.",
        ),
    ] = "-",
    column: Annotated[
        str, typer.Option(help="Column of a table: its name, or its number if the first row holds no names.")
    ] = "",
    job: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where the job is kept; several commands that name one share it.")
    ] = "",
    beam: Annotated[int | None, typer.Option(help="Beam size, if not the model's own; 1 is the fastest.")] = None,
    long_lines: Annotated[
        str, typer.Option(metavar="split|cut", help="Lines longer than the model reads, if not as the model says.")
    ] = "",
    prefix_column: Annotated[
        str,
        typer.Option(help="Column of a table with what each translation has to begin with; empty where it is free."),
    ] = "",
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="search.KEY=VALUE", help="Change how the model searches. May be repeated."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Translate text: one line out for each line in. Files are a job: the same command goes on after any death."""
    from flows.commands.translate import translate
    from flows.translation import Wanted

    translate(Wanted(model, source, target, column, job, beam, long_lines, prefix_column, tuple(overrides or ())))


@app.command()
def up(debug: Debug = False) -> None:
    """Start the Prefect and MLflow servers and the deployments on this machine, until Ctrl-C."""
    from flows.commands.up import up

    up()


def main() -> None:
    """Run a command; exit with 1 after an error, 2 after a usage error, 75 if preempted, 130 after Ctrl-C."""
    debug = _DEBUG in sys.argv
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
        sys.exit(f"nmt: unexpected {type(error).__name__}: {' '.join(str(error).split())}: --debug shows the traceback")
    finally:
        gc.freeze()  # else the interpreter spends a second on collecting what its exit frees anyway
