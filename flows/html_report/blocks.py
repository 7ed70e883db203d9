"""Building blocks of the report page, and the run that it describes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from flows.html_report.svg import Drawing
from flows.runs.summary import Champion, RunSummary, StageSummary, newest_runs
from flows.settings import Settings
from nmt_core.store.artifacts import Artifact


@dataclass(frozen=True)
class Text:
    """Paragraph."""

    text: str
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Table:
    """Rows of text. Numbers are aligned to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    shares: Sequence[float] = ()
    """Share of each row, from 0 to 1, which is drawn as a bar. Empty means no bars."""
    is_stacked: bool = False
    """Show each row as a card on a telephone, because its texts are long."""
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Charts:
    """Drawings side by side, as many in a row as fit."""

    drawings: Sequence[Drawing]
    kind: ClassVar[str] = "charts"


@dataclass(frozen=True)
class Marked:
    """Text in parts, some of which are marked."""

    parts: Sequence[tuple[str, bool]]
    """Each part, and True if it is marked."""


@dataclass(frozen=True)
class Sentences:
    """Sentences with their translations. Each item has a heading and a list of (label, text) pairs."""

    caption: str
    items: Sequence[tuple[str, Sequence[tuple[str, str | Marked]]]]
    is_open: bool = False
    """Show the items at first."""
    is_searched: bool = False
    """Show the items only that hold what a reader types into a field."""
    kind: ClassVar[str] = "sentences"


@dataclass(frozen=True)
class Code:
    """Text of a file or a terminal. With a title, it is folded away."""

    text: str
    title: str = ""
    kind: ClassVar[str] = "code"


Block = Text | Table | Charts | Sentences | Code


@dataclass(frozen=True)
class Section:
    """Section of the page."""

    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)


class Run:
    """Run with the artifacts that it made or used and that still exist.

    Args:
        summary: Summary of the run.
        settings: Settings that locate the store and the runs.
    """

    def __init__(self, summary: RunSummary, settings: Settings) -> None:
        self.summary = summary
        self.settings = settings
        self.config: dict[str, Any] = summary.config
        self._artifacts: dict[str, Artifact | None] = {}
        self._evaluations: dict[str, Artifact | None] = {}

    @property
    def folder(self) -> Path:
        """Folder of the run, for files that are not artifacts."""
        return self.settings.runs / self.summary.run_id

    def artifact(self, stage: str) -> Artifact | None:
        """Return the artifact that a stage made or reused in this run.

        Return None if the stage was not part of the run, or if its artifact is no longer in the store.
        """
        if stage not in self._artifacts:
            row = self.summary.stage(stage)
            came = row and row.status in {"done", "reused"}
            self._artifacts[stage] = self.settings.store.find(stage, row.fingerprint) if row and came else None
        return self._artifacts[stage]

    def report(self, stage: str) -> dict[str, Any] | None:
        """Return the report of a stage, or None if its artifact is missing."""
        artifact = self.artifact(stage)
        return artifact.report() if artifact else None

    def unfinished(self, stage: str) -> Path | None:
        """Return the folder of a stage that this run began and did not finish, or None if there is none."""
        row = self.summary.stage(stage)
        if not row or row.status in {"done", "reused"}:
            return None
        folder = self.settings.store.partial(stage, row.fingerprint)
        return folder if folder.is_dir() else None

    def champion_of(self, test_set: str) -> Artifact | None:
        """Return the evaluation of the champion that a test set, or a suite made from one, is compared with.

        This is the champion of its pair of languages, which ends its name, if pairs have champions of their own.
        Return None if there was no champion, or if its evaluation is no longer in the store.
        """
        name, own = test_set.partition("+")[0], self.summary.champions_of_pairs
        pair = next((pair for pair in own if name.endswith(f"-{pair}")), "")
        known = own.get(pair, self.summary.champion)
        return self.evaluation_of(known) if known else None

    def evaluation_of(self, champion: Champion) -> Artifact | None:
        """Return the evaluation of a champion, or None if it is no longer in the store."""
        if champion.evaluate not in self._evaluations:
            self._evaluations[champion.evaluate] = self.settings.store.find("evaluate", champion.evaluate)
        return self._evaluations[champion.evaluate]

    @cached_property
    def previous(self) -> RunSummary | None:
        """The last finished run of the recipe before this one, or None if there is none."""
        own = self.summary
        return next(
            (
                other
                for other in newest_runs(self.settings.runs)
                if other.recipe == own.recipe and other.started < own.started and other.status == "finished"
            ),
            None,
        )

    def missing(self, stage: str) -> Text:
        """Return a paragraph that says why there is nothing to show for a stage."""
        row: StageSummary | None = self.summary.stage(stage)
        if row is None:
            return Text(f"The stage {stage} was not part of this run.")
        if row.status in {"done", "reused"}:
            return Text(f"The artifact of the stage {stage}, {row.fingerprint[:12]}, is no longer in the store.")
        return Text(f"The stage {stage} did not finish: it {_ENDS.get(row.status, row.status)}.")


_ENDS = {"failed": "failed", "killed": "was stopped", "running": "was running when this report was written"}


def number(value: float | None, digits: int = 2) -> str:
    """Format a number with a fixed count of decimals. Return an empty text for None."""
    return "" if value is None else f"{value:,.{digits}f}"


def duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
