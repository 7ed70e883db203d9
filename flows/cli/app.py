"""Assembly and entry point of the command line `nmt`. Each command imports what it needs when it is called."""

import gc
import importlib.metadata
import sys
import traceback
from collections.abc import Callable
from typing import Annotated

import typer

from flows.cli.arguments import DEBUG
from flows.cli.artifacts import artifacts
from flows.cli.clean import clean
from flows.cli.compare import compare
from flows.cli.deploy import deploy, worker
from flows.cli.explain import explain
from flows.cli.history import clean_history
from flows.cli.import_model import import_model
from flows.cli.init import init
from flows.cli.interruption import Stopped
from flows.cli.manifest import manifest
from flows.cli.plan import plan, why
from flows.cli.promotion import models, promote, rollback
from flows.cli.recipes import recipes
from flows.cli.reconcile import reconcile
from flows.cli.report import report
from flows.cli.run import run, stage
from flows.cli.schedules import pause, resume, schedules, undeploy
from flows.cli.serve import serve
from flows.cli.translate import translate
from flows.cli.up import up
from nmt_core.errors import NmtError, words_of

COMMANDS: tuple[Callable[..., None], ...] = (
    *(init, run, stage, compare, plan, why, clean, manifest, recipes),
    *(translate, serve, import_model, explain, report, promote, rollback, models),
    *(up, deploy, worker, schedules, pause, resume, undeploy, reconcile, clean_history),
)
"""Commands in the order of `nmt --help`, without the group `nmt artifacts`."""

app = typer.Typer(
    help="Retrain a neural translation model end to end, from one recipe, on any machine.\n\n"
    "Start with `nmt run quickstart`: it trains a toy model in minutes and needs no network.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(artifacts, name="artifacts")


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"nmt-pipeline {importlib.metadata.version('nmt-pipeline')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Retrain a neural translation model end to end, from one recipe, on any machine."""


def main() -> None:
    """Run a command and exit with its code.

    The code is 1 after an error, 2 after a usage error, 75 after a preemption, 130 after Ctrl-C and 143 after SIGTERM.
    """
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
        gc.freeze()  # otherwise the interpreter spends a second collecting memory that its exit frees anyway
