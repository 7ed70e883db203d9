"""One retraining in this process: with Prefect and MLflow, progress on the terminal, and a summary at its end."""

import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from flows.cli import closing
from flows.cli.interruption import Stopped, interruptible
from flows.display.progress import shown_on, styled, terminal
from flows.runs.selection import Selection
from flows.runs.summary import TRACEBACK, RunSummary, new_run_id, read_summary
from flows.servers.servers import PrefectApi, ServerError
from flows.settings import Settings, allow_code_of_its_owner
from nmt_core.config import PipelineConfig
from nmt_core.errors import NmtError, without_password, words_of
from nmt_core.stages.stage import is_full_disk
from nmt_core.stages.table import plan

_LEAST_FREE_BYTES = 65_536
_BYTES_OF_NEW_DATABASES = 4 << 20  # a server that cannot make its database may leave so much free when it ends

Retrain = Callable[[PipelineConfig, Selection, str], RunSummary]
"""One retraining, under a run id."""


class UnexpectedError(NmtError):
    """A fault of this program."""


def run_recipe(
    config: PipelineConfig, selection: Selection, *, as_json: bool, debug: bool, typed: Sequence[str]
) -> None:
    """Run, show how it goes and what came of it, and leave a summary however it ends.

    Args:
        config: the recipe.
        selection: which stages.
        as_json: print the summary as the last line.
        debug: show tracebacks.
        typed: the recipe and its `--set` options as they were typed, for what to try next.

    Raises:
        NmtError: it failed, for a reason that the message gives.
        Stopped: a signal stopped it.
    """
    allow_code_of_its_owner()
    settings = Settings.load()
    settings.prepare(debug=debug)
    start = time.monotonic()
    run_id = new_run_id(config.name)
    console = terminal(to_stderr=as_json)
    console.print(styled((config.name, "bold"), f": {config.description}"))
    try:
        with interruptible():
            summary = _run(config, selection, run_id, settings, console)
    except BaseException as error:
        summary = read_summary(settings.runs, run_id) or RunSummary.begin(config, run_id)
        summary.end(error)
        _finish(summary, start, settings)
        if summary.stages:
            closing.show(summary, console, typed)
        if isinstance(error, Stopped):
            console.print("What was finished is kept: the same command goes on from there.")
        if as_json:
            print(summary.model_dump_json(), flush=True)
        if debug or isinstance(error, Stopped):
            raise
        raise explained(error, settings, run_id) from None
    _finish(summary, start, settings)
    closing.show(summary, console, typed)
    if as_json:
        print(summary.model_dump_json(), flush=True)


def _finish(summary: RunSummary, start: float, settings: Settings) -> None:
    """Count what came before and after the flow as well: servers, imports, the last words to MLflow."""
    summary.seconds = round(time.monotonic() - start, 2)
    summary.write(settings.runs)


def _run(config: PipelineConfig, selection: Selection, run_id: str, settings: Settings, console: Console) -> RunSummary:
    plan(config, settings.store)  # what is wrong with the recipe's files is said before anything starts
    with ready(settings) as retrain, shown_on(console):
        return retrain(config, selection, run_id)


@contextmanager
def ready(settings: Settings) -> Iterator[Retrain]:
    """Prefect and MLflow, and the function that runs one retraining in this process.

    Raises:
        NmtError: a server does not start or does not answer.
    """
    with PrefectApi(settings).connected() as api:
        from flows.retrain import retrain  # this and the next take seconds, in which the server starts
        from flows.tracking.mlflow_tracker import open_database

        open_database(settings.mlflow_tracking_uri)
        api.wait()
        yield lambda config, selection, run_id: retrain(
            config, selection.first, selection.last, list(selection.force), run_id
        )


def explained(error: BaseException, settings: Settings, run_id: str) -> NmtError:
    """A one-line error, and the traceback in the run's folder."""
    if isinstance(error, NmtError) and not isinstance(error, ServerError):
        return error
    # On a full disk, servers and databases fail in many words, and nothing more can be written
    needed = _BYTES_OF_NEW_DATABASES if isinstance(error, ServerError) else _LEAST_FREE_BYTES
    if is_full_disk(error) or shutil.disk_usage(settings.home).free < needed:
        return UnexpectedError(f"the disk of {settings.home} is full: free space, then run the same command again")
    if isinstance(error, ServerError):
        return error
    file = settings.runs / run_id / TRACEBACK
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(without_password("".join(traceback.format_exception(error))), encoding="utf-8")
    return UnexpectedError(f"unexpected {type(error).__name__}: {words_of(error)}: the traceback is in {file}")
