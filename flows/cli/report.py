"""`nmt report`: write the report of a run again."""

from typing import Annotated

import typer

LATEST = "latest"


def report(
    run: Annotated[
        str,
        typer.Argument(
            help="Id of a run or its first characters, or `latest`. Each run has a folder in `runs/` of NMT_HOME."
        ),
    ] = LATEST,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Write the HTML report of a run again from stored results, and print its path."""
    from flows.html_report.page import write_page
    from flows.runs.summary import find_run
    from flows.settings import Settings

    settings = Settings.load()
    typer.echo(write_page(find_run(settings.runs, "" if run == LATEST else run), settings))
