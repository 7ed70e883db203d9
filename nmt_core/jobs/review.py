"""Write the lines of a job that are most worth a human's time, for correction.

A line has a reason for each sign that its translation may be wrong: a bad status, text that the vocabulary cannot
spell, a low score, or a challenger that disagrees. Lines with more reasons come first, then those with the lower score.

The corrected file is parallel text: its columns `source` and `correction` are the two sides. Rows without a correction
have no target, and are dropped and counted as such when they are read.
"""

import csv
import heapq
import math
from collections.abc import Iterator
from io import TextIOWrapper
from typing import NamedTuple

from nmt_core.jobs.chunk import SCHEMA
from nmt_core.jobs.folder import Parts
from nmt_core.jobs.inputs import REVIEW
from nmt_core.jobs.order import Order, Plan
from nmt_core.jobs.shadow import shadowed
from nmt_core.jobs.shadow_result import GOOD
from nmt_core.store import storage

COLUMNS = (
    *("source", "translation", "correction", "reasons", "status", "score", "challenger", "agreement"),
    *("model", "model_version", "file", "row"),
)
"""Columns of the file. `row` is counted from 1. `agreement` is the chrF between the translations of both models."""

_UNKNOWN = frozenset({"unknown", "partly_unknown"})
_LOW_SCORE = 1.5
"""Standard deviations below the mean of the job from which a score is low."""
_LITTLE_AGREEMENT = 40.0


class Scores(NamedTuple):
    """Mean and standard deviation of the scores of a job, in nats."""

    mean: float
    deviation: float

    def is_low(self, score: float | None) -> bool:
        """Return True if a score is unusually low."""
        return score is not None and self.deviation > 0 and score < self.mean - _LOW_SCORE * self.deviation


class Line(NamedTuple):
    """Translated line, with the reasons why it should be looked at."""

    source: str
    translation: str
    status: str
    score: float | None
    challenger: str
    agreement: float | None
    file: int
    row: int
    reasons: tuple[str, ...]

    @property
    def priority(self) -> tuple[int, float, int, int]:
        """Return the key by which lines are sorted, the most important first."""
        return -len(self.reasons), math.inf if self.score is None else self.score, self.file, self.row


def review_file(order: Order) -> str:
    """Return the path or address of the file."""
    return order.target.rstrip("/") + REVIEW


def write_review(plan: Plan, parts: Parts, *, with_shadow: bool) -> int:
    """Write the lines, and return their number. Nothing is written if the order asks for none.

    Args:
        plan: the chunks.
        parts: the paths of their files.
        with_shadow: True if a challenger has translated some of the lines.
    """
    order = plan.order
    if not order.review:
        return 0
    scores = _scores(parts, len(plan.chunks))
    best: dict[str, Line] = {}
    for line in _lines(plan, parts, scores, with_shadow=with_shadow):
        former = best.get(line.source)
        if former is None or line.priority < former.priority:
            best[line.source] = line
        if len(best) > 2 * order.review + 1_000:
            best = {one.source: one for one in _first(best, order.review)}
    chosen = _first(best, order.review)
    with storage.published(review_file(order)) as file:
        text = TextIOWrapper(file, encoding="utf-8", newline="")
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        for line in chosen:
            rows.writerow(_row(line, order))
        text.flush()
        text.detach()
    return len(chosen)


def _first(lines: dict[str, Line], count: int) -> list[Line]:
    return heapq.nsmallest(count, lines.values(), key=lambda line: line.priority)


def _row(line: Line, order: Order) -> list[object]:
    shown = "" if line.score is None else line.score
    agreement = "" if line.agreement is None else line.agreement
    return [
        *(line.source, line.translation, "", "; ".join(line.reasons), line.status, shown, line.challenger, agreement),
        *(order.model.name, order.model.version, order.inputs[line.file].name, line.row),
    ]


def _lines(plan: Plan, parts: Parts, scores: Scores, *, with_shadow: bool) -> Iterator[Line]:
    """Yield all lines that have a reason."""
    for number, chunk in enumerate(plan.chunks):
        rows = storage.read(parts.input(number), ["text", "fault"])
        done = storage.read(parts.output(number), list(SCHEMA))
        others: dict[int, tuple[str, float]] = {}
        if with_shadow:
            compared = shadowed(parts, number).select("place", "translation", "agreement")
            others = {place: (text, agreement) for place, text, agreement in compared.iter_rows()}
        for place, (text, fault) in enumerate(rows.iter_rows()):
            translation, score, status = done.row(place)
            if fault or status == "empty":
                continue
            challenger, agreement = others.get(place, ("", None))
            line = Line(
                *(text, translation, status, score, challenger, agreement, chunk.file, chunk.first + place + 1, ()),
            )
            if reasons := tuple(_reasons(line, scores)):
                yield line._replace(reasons=reasons)


def _reasons(line: Line, scores: Scores) -> Iterator[str]:
    if line.status in _UNKNOWN:
        yield "unknown text"
    elif line.status not in GOOD:
        yield f"status {line.status}"
    if scores.is_low(line.score):
        yield "low score"
    if line.agreement is not None and line.agreement < _LITTLE_AGREEMENT:
        yield "the challenger disagrees"


def _scores(parts: Parts, chunks: int) -> Scores:
    """Return the mean and the standard deviation of all scores, with one chunk in memory at a time."""
    count, total, squares = 0, 0.0, 0.0
    for number in range(chunks):
        own = storage.read(parts.output(number), ["score"])["score"].drop_nulls()
        count, total, squares = count + own.len(), total + float(own.sum()), squares + float((own * own).sum())
    mean = total / max(count, 1)
    return Scores(mean, math.sqrt(max(squares / max(count, 1) - mean * mean, 0.0)))
