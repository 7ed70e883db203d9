"""Progress of a run: one live line per stage on a terminal, plain lines elsewhere."""

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from nmt_core.errors import without_password

if TYPE_CHECKING:
    from flows.tracking.mlflow_tracker import TrackedRun, Tracker

    Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]

Detail = Literal["quiet", "normal", "verbose"]
"""Amount of output of a run. `normal` shows problems, notices and the progress of stages, `verbose` its log too."""

_SECONDS_BETWEEN_LINES = 10.0


class Display(Protocol):
    """Interface that shows the progress of a run."""

    def begin(self, stage: str) -> None:
        """Show that a stage begins."""

    def progress(self, stage: str, done: float, total: float, note: str) -> None:
        """Show that `done` of `total` steps are finished."""

    def end(self, stage: str, note: str) -> None:
        """Show that a stage has ended, with a note about its result."""

    def log(self, message: str) -> None:
        """Show a line of the log, to users who want all of them."""

    def note(self, message: str) -> None:
        """Show a notice."""

    def say(self, message: str) -> None:
        """Show a problem. Every display on a terminal does."""


class Silence:
    """Display that shows nothing, for runs that Prefect starts without a terminal."""

    def begin(self, stage: str) -> None: ...

    def progress(self, stage: str, done: float, total: float, note: str) -> None: ...

    def end(self, stage: str, note: str) -> None: ...

    def log(self, message: str) -> None: ...

    def note(self, message: str) -> None: ...

    def say(self, message: str) -> None: ...


class Problems(Silence):
    """Display that shows problems and nothing else."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, message: str) -> None:
        self._console.print(message, soft_wrap=True)


class LiveLines:
    """Display with one line per stage, which has a bar and is kept up to date."""

    def __init__(self, progress: Progress, *, is_verbose: bool = False) -> None:
        self._progress = progress
        self._is_verbose = is_verbose
        self._lines: dict[str, TaskID] = {}

    def begin(self, stage: str) -> None:
        self._lines[stage] = self._progress.add_task(f"{stage:<10}", total=None, note="")

    def progress(self, stage: str, done: float, total: float, note: str) -> None:
        self._progress.update(self._lines[stage], completed=done, total=total or None, note=note)

    def end(self, stage: str, note: str) -> None:
        if stage not in self._lines:
            self.begin(stage)
        self._progress.update(self._lines[stage], completed=1, total=1, note=note)

    def log(self, message: str) -> None:
        if self._is_verbose:
            self._progress.console.print(message, style="dim", soft_wrap=True)

    def note(self, message: str) -> None:
        self._progress.console.print(message, soft_wrap=True)

    def say(self, message: str) -> None:
        self._progress.console.print(message, style="yellow", soft_wrap=True)


class PlainLines:
    """Display that prints a line when a stage begins and ends, and at intervals in between."""

    def __init__(self, console: Console, *, is_verbose: bool = False) -> None:
        self._console = console
        self._is_verbose = is_verbose
        self._last = 0.0

    def begin(self, stage: str) -> None:
        self._last = time.monotonic()
        self.say(f"{stage:<10} ...")

    def progress(self, stage: str, done: float, total: float, note: str) -> None:
        if time.monotonic() - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            share = f"{done / total:4.0%} " if total else ""
            self.say(f"{stage:<10} {share}{note}")

    def end(self, stage: str, note: str) -> None:
        self.say(f"{stage:<10} {note}")

    def log(self, message: str) -> None:
        if self._is_verbose:
            self.say(message)

    def note(self, message: str) -> None:
        self.say(message)

    def say(self, message: str) -> None:
        self._console.print(message, soft_wrap=True)


current_display: ContextVar[Display] = ContextVar("current_display", default=Silence())  # noqa: B039  # has no state


@contextmanager
def shown_on(console: Console, detail: Detail = "normal") -> Iterator[Display]:
    """Show the runs inside this block on a console."""
    is_verbose = detail == "verbose"
    if detail != "quiet" and console.is_terminal:
        columns: tuple[ProgressColumn, ...] = (
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}", markup=False),
            _BarWhileRunning(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        with (
            Progress(*columns, console=console, refresh_per_second=4) as progress,
            _as_current(LiveLines(progress, is_verbose=is_verbose)) as display,
        ):
            yield display
    else:
        plain = Problems(console) if detail == "quiet" else PlainLines(console, is_verbose=is_verbose)
        with _as_current(plain) as display:
            yield display


@contextmanager
def _as_current(display: Display) -> Iterator[Display]:
    token = current_display.set(display)
    try:
        yield display
    finally:
        current_display.reset(token)


class _BarWhileRunning(BarColumn):
    """Bar that disappears when its stage has finished."""

    def render(self, task: Task):  # type: ignore[no-untyped-def]  # rich's own type is private
        return "" if task.finished else super().render(task)


class StageReporter:
    """Reporter of a stage, which sends progress to the display, lines to Prefect, and curves to MLflow."""

    def __init__(self, stage: str, logger: "Logger", tracker: "Tracker", run: "TrackedRun") -> None:
        self._stage = stage
        self._logger = logger
        self._tracker = tracker
        self._run = run
        self._display = current_display.get()
        self.curves: set[str] = set()
        """Names of the curves that were sent to MLflow."""

    def progress(self, done: float, total: float, note: str = "") -> None:
        """Show the progress of the stage, which therefore is not reused and has a run in MLflow."""
        if not self._run.exists:
            self._tracker.create(self._run)
        self._display.progress(self._stage, done, total, note)

    def log(self, message: str) -> None:
        """Write a line to the log of the Prefect run."""
        self._log(message)
        self._display.log(without_password(message))

    def notice(self, message: str) -> None:
        """Write a line to the log of the Prefect run, and show it to the user."""
        self._log(message)
        self._display.note(without_password(message))

    def _log(self, message: str) -> None:
        self._logger.info(without_password(message))

    def warn(self, message: str) -> None:
        """Write a warning to the log of the Prefect run, and show it to the user."""
        self._logger.warning(without_password(message))
        self._display.say(without_password(message))

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve in MLflow."""
        self.curves |= values.keys()
        self._tracker.metrics(self._run, values, step)


def terminal(*, to_stderr: bool) -> Console:
    """Return the console for people, which writes to stderr if stdout carries data.

    It prints text literally, in tables and trees too: brackets and colons of recipes, paths and sentences are not
    markup. Every console is made here. For styled text, pass a style as an argument or use `styled`.
    """
    width = None if (sys.stderr if to_stderr else sys.stdout).isatty() else 160
    return Console(stderr=to_stderr, width=width, markup=False, emoji=False, highlight=False)


def styled(*parts: str | tuple[str, str]) -> Text:
    """Return a line of parts. A pair is a text and its style."""
    return Text.assemble(*parts)


def titled(name: str, description: str) -> Text:
    """Return the name of a recipe, with its description if it has one."""
    return styled((name, "bold"), f": {description}" if description else "")
