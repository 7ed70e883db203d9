"""`nmt report`: the report of a run, made again from what is stored."""

from typing import Annotated

import typer

LATEST = "latest"


def report(
    run: Annotated[
        str,
        typer.Argument(help="A run's id or its first letters, or `latest`; `runs/` in NMT_HOME has a folder of each."),
    ] = LATEST,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Make the HTML report of a run again, from what is still stored, and print where it lies."""
    from flows.html_report.page import write_page
    from flows.runs.summary import find_run
    from flows.settings import Settings

    settings = Settings.load()
    typer.echo(write_page(find_run(settings.runs, "" if run == LATEST else run), settings))
