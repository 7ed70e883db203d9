"""Retraining in this process: Prefect and MLflow are started, progress is shown, and a summary is written."""

import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from rich.console import Console

from flows.cli import closing
from flows.cli.interruption import Stopped, interruptible
from flows.display import forecasts
from flows.display.progress import Detail, shown_on, terminal, titled
from flows.runs.changes import begun_with
from flows.runs.forecast import forecast_run
from flows.runs.machine import Free
from flows.runs.selection import Selection
from flows.runs.summary import TRACEBACK, RunSummary, new_run_id, read_summary
from flows.servers.servers import PrefectApi, ServerError
from flows.settings import Settings, allow_code_of_its_owner
from nmt_core.config import PipelineConfig
from nmt_core.errors import NmtError, without_password, words_of
from nmt_core.stages import StageName
from nmt_core.stages.stage import is_full_disk

_LEAST_FREE_BYTES = 65_536
_BYTES_OF_NEW_DATABASES = 4 << 20  # a server that fails to create its database may leave this much free when it exits

Retrain = Callable[[PipelineConfig, Selection, str], RunSummary]
"""Function that runs one retraining under a run id."""


class UnexpectedError(NmtError):
    """Fault of this program, or a full disk, as a one-line message."""


def run_recipe(
    config: PipelineConfig,
    selection: Selection,
    *,
    as_json: bool,
    debug: bool,
    typed: Sequence[str],
    detail: Detail = "normal",
) -> None:
    """Run a recipe, show its progress and result, and write a summary even if it fails.

    Args:
        config: the recipe.
        selection: stages to run.
        as_json: print the summary as JSON on the last line; everything else goes to stderr.
        debug: show tracebacks.
        typed: the recipe and its `--set` options as the user typed them, for the next steps.
        detail: what to show beside the JSON.

    Raises:
        NmtError: the run failed.
        Stopped: a signal stopped the run.
    """
    allow_code_of_its_owner()
    settings = Settings.load()
    settings.prepare(debug=debug)
    start = time.monotonic()
    run_id = new_run_id(config.name)
    is_quiet = detail == "quiet"
    console = terminal(to_stderr=as_json or is_quiet)
    if not is_quiet:
        console.print(titled(config.name, config.description))
    try:
        with interruptible(), begun_with(typed[0]):
            summary = _run(config, selection, run_id, settings, console=console, detail=detail)
    except BaseException as error:
        summary = read_summary(settings.runs, run_id) or RunSummary.begin(config, run_id)
        summary.end(error)
        _finish(summary, start, settings)
        if summary.stages and not is_quiet:
            closing.show(summary, console, typed)
        if isinstance(error, Stopped):
            console.print("Finished stages are kept: repeat the command to resume.")
        if as_json:
            print(summary.model_dump_json(), flush=True)
        if debug or isinstance(error, Stopped):
            raise
        raise explained(error, settings, run_id) from None
    _finish(summary, start, settings)
    if not is_quiet:
        closing.show(summary, console, typed)
    if as_json:
        print(summary.model_dump_json(), flush=True)


def _finish(summary: RunSummary, start: float, settings: Settings) -> None:
    """Write the summary. Its seconds include what comes before and after the flow, such as the start of servers."""
    summary.seconds = round(time.monotonic() - start, 2)
    summary.write(settings.runs)


def _run(
    config: PipelineConfig,
    selection: Selection,
    run_id: str,
    settings: Settings,
    *,
    console: Console,
    detail: Detail,
) -> RunSummary:
    # Faults in the recipe's files and a machine that is too small are reported before anything starts
    foreseen, free = forecast_run(config, settings, selection), Free.of(settings.store.root)
    lines = forecasts.warnings if detail == "quiet" else forecasts.beginning
    for line in lines(foreseen, free):
        console.print(line, soft_wrap=True)
    with ready(settings) as retrain, shown_on(console, detail):
        return retrain(config, selection, run_id)


@contextmanager
def ready(settings: Settings) -> Iterator[Retrain]:
    """Start Prefect, open the database of MLflow, and yield a function that runs one retraining in this process.

    Raises:
        NmtError: a server does not start or does not answer.
    """
    with PrefectApi(settings).connected() as api:
        from flows.retrain import retrain  # this import and the next take seconds, in which the server starts
        from flows.tracking.mlflow_tracker import open_database

        open_database(settings.mlflow_tracking_uri)
        api.wait()
        yield lambda config, selection, run_id: retrain(
            config=config,
            from_=selection.first,
            until=selection.last,
            force=cast(list[StageName], list(selection.force)),  # `Selection` refuses `register`
            run_id=run_id,
        )


def explained(error: BaseException, settings: Settings, run_id: str) -> NmtError:
    """Return an error of one line. The traceback of an unexpected exception is written to the run's folder."""
    if isinstance(error, NmtError) and not isinstance(error, ServerError):
        return error
    # On a full disk, servers and databases fail with various messages, and nothing more can be written
    needed = _BYTES_OF_NEW_DATABASES if isinstance(error, ServerError) else _LEAST_FREE_BYTES
    if is_full_disk(error) or shutil.disk_usage(settings.home).free < needed:
        return UnexpectedError(f"the disk of {settings.home} is full: free space, then run the same command again")
    if isinstance(error, ServerError):
        return error
    file = settings.runs / run_id / TRACEBACK
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(without_password("".join(traceback.format_exception(error))), encoding="utf-8")
    return UnexpectedError(f"unexpected {type(error).__name__}: {words_of(error)}: the traceback is in {file}")
