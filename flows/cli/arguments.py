"""Arguments and options that several commands of `nmt` have in common. Imports nothing slow."""

from typing import Annotated

import typer

from flows.runs.selection import STEPS, StepName

DEBUG = "--debug"


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
Debug = Annotated[bool, typer.Option(DEBUG, help="Show Prefect's log, and tracebacks of errors.")]
