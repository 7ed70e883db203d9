"""What a page of the report is made of, and the run that it is about."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from flows.html_report.svg import Drawing
from flows.runs.summary import RunSummary, StageSummary
from flows.settings import Settings
from nmt_core.store.artifacts import Artifact


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Table:
    """Rows of text; numbers are set to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    shares: Sequence[float] = ()
    """Of each row from 0 to 1, drawn as a bar; empty: no bars."""
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Charts:
    """Drawings beside each other, as far as there is room."""

    drawings: Sequence[Drawing]
    kind: ClassVar[str] = "charts"


@dataclass(frozen=True)
class Sentences:
    """Sentences with their translations: for each a heading and (what it is, text) in turn."""

    caption: str
    items: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    kind: ClassVar[str] = "sentences"


@dataclass(frozen=True)
class Code:
    """Text as it is written in a file or a terminal; with a title it is folded away."""

    text: str
    title: str = ""
    kind: ClassVar[str] = "code"


Block = Text | Table | Charts | Sentences | Code


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)


class Run:
    """A run, and what is still there of what it made or used.

    Args:
        summary: of the run.
        settings: where its artifacts are.
    """

    def __init__(self, summary: RunSummary, settings: Settings) -> None:
        self.summary = summary
        self.settings = settings
        self.config: dict[str, Any] = summary.config
        self._artifacts: dict[str, Artifact | None] = {}

    @property
    def folder(self) -> Path:
        """Where the run keeps what is no artifact."""
        return self.settings.runs / self.summary.run_id

    def artifact(self, stage: str) -> Artifact | None:
        """What the stage made or reused in this run, if it was part of it and its artifact is still there."""
        if stage not in self._artifacts:
            row = self.summary.stage(stage)
            came = row and row.status in {"done", "reused"}
            self._artifacts[stage] = self.settings.store.find(stage, row.fingerprint) if row and came else None
        return self._artifacts[stage]

    def report(self, stage: str) -> dict[str, Any] | None:
        """What the stage said."""
        found = self.artifact(stage)
        return found.report() if found else None

    def unfinished(self, stage: str) -> Path | None:
        """The folder of a stage that this run began and did not end."""
        row = self.summary.stage(stage)
        if not row or row.status in {"done", "reused"}:
            return None
        folder = self.settings.store.partial(stage, row.fingerprint)
        return folder if folder.is_dir() else None

    @cached_property
    def champion(self) -> Artifact | None:
        """The champion's translations, if there was a champion and they are still there."""
        known = self.summary.champion
        return self.settings.store.find("evaluate", known.evaluate) if known else None

    def missing(self, stage: str) -> Text:
        """Why there is nothing to show of a stage."""
        row: StageSummary | None = self.summary.stage(stage)
        if row is None:
            return Text(f"The stage {stage} was not part of this run.")
        if row.status in {"done", "reused"}:
            return Text(f"The artifact of the stage {stage}, {row.fingerprint[:12]}, is no longer in the store.")
        return Text(f"The stage {stage} did not come to its end: it {_ENDS.get(row.status, row.status)}.")


_ENDS = {"failed": "failed", "killed": "was stopped", "running": "was running when this was written"}


def number(value: float | None, digits: int = 2) -> str:
    """With so many digits after the point; nothing if it is not known."""
    return "" if value is None else f"{value:,.{digits}f}"


def money(amount: float | None) -> str:
    """With as many digits as make it more than nothing; nothing if it is not known."""
    if amount is None:
        return ""
    return f"{amount:,.2f}" if amount >= 1 or not amount else f"{amount:.2g}"


def duration(seconds: float) -> str:
    """As people say it."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
