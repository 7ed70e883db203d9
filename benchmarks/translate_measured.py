"""Collect the measurements of `translate.py`, and make its tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

BARS = {
    ("CTranslate2", "int8", 5): 1.20,
    ("CTranslate2", "int8", 1): 1.12,
    ("CTranslate2", "fp32", 5): 1.12,
    ("CTranslate2", "fp32", 1): 1.08,
    ("CTranslate2", "fp16", 4): 1.0,
    ("CTranslate2", "fp16", 1): 1.0,
    ("transformers", "fp16", 4): 5.0,
    ("transformers", "fp16", 1): 5.0,
}
"""Goals: ours has this many times as many tokens per second as another system, by its name, precision and beam size."""
LOADED_BARS = {"fp32": {"seconds": 1.5}, "int8": {"seconds": 1.5, "rss": 400.0}}
"""Goals for loading ours on a CPU: the most seconds and megabytes of a model of the size of base."""
LEAST_IDENTICAL = 0.99
"""Share of lines that are to be identical to CTranslate2's in fp32."""


@dataclass(frozen=True)
class Row:
    """One contender with one text."""

    text: str
    precision: str
    beam: int
    name: str
    settings: str
    tokens: int
    walls: Sequence[float]
    cpus: Sequence[float]
    bleu: float
    identical: float
    """Share of the lines that equal ours in the same precision, without a length penalty."""

    def ratios(self, ours: "Row") -> tuple[float, float]:
        """Return the speed of ours relative to this row, per second and per CPU-second: the median of the pairs."""
        more = ours.tokens / self.tokens
        walls = [theirs / of_ours for theirs, of_ours in zip(self.walls, ours.walls, strict=True)]
        cpus = [theirs / of_ours for theirs, of_ours in zip(self.cpus, ours.cpus, strict=True)]
        return more * median(walls), more * median(cpus)


@dataclass(frozen=True)
class Loaded:
    """One contender's model, loaded several times."""

    precision: str
    name: str
    answers: Sequence[dict[str, Any]]
    """Seconds, and megabytes of resident memory: `rss_before`, `rss`, and `rss_later`, when a text is translated."""

    def middle(self, name: str) -> float:
        """The median of one of these."""
        return median(answer[name] for answer in self.answers)


def print_rows(rows: Sequence[Row]) -> None:
    """Print a Markdown table. Ours comes first in each comparison."""
    head = [
        "Text",
        "Precision",
        "Beam",
        "System",
        "Settings",
        "Tokens/s",
        "Tokens/CPU-s",
        "Ours is faster",
        "per CPU-s",
    ]
    _print_head([*head, "Bar", "Identical", "BLEU"], left=5)
    ours = rows[0]
    for row in rows:
        cells = ["", "", ""]
        if row.name == "ours":
            ours = row
        else:
            wall, cpu = row.ratios(ours)
            cells = [f"{wall:.2f}", f"{cpu:.2f}", ""]
            if bar := BARS.get((row.name, row.precision, row.beam)):
                cells = [f"**{wall:.2f}**", f"{cpu:.2f}", f"{bar:.2f}, {'met' if wall >= bar else 'missed'}"]
        rates = [f"{row.tokens / median(seconds):,.0f}" for seconds in (row.walls, row.cpus)]
        names = [row.text, row.precision, f"{row.beam}", row.name, row.settings]
        print(f"| {' | '.join([*names, *rates, *cells, f'{row.identical:.2%}', f'{row.bleu:.2f}'])} |")


def print_loaded(models: Sequence[Loaded]) -> None:
    """A table in Markdown."""
    head = ["System", "Precision", "Loading, s", "MB before", "MB loaded", "MB after a text"]
    _print_head(head, left=2)
    for model in models:
        sizes = " | ".join(f"{model.middle(name):,.0f}" for name in ("rss_before", "rss", "rss_later"))
        print(f"| {model.name} | {model.precision} | {model.middle('seconds'):.2f} | {sizes} |")


def missed(rows: Sequence[Row], models: Sequence[Loaded]) -> list[str]:
    """Return a line for each goal that is missed, in speed or in loading."""
    lines = []
    ours = rows[0]
    for row in rows:
        ours = row if row.name == "ours" else ours
        bar = BARS.get((row.name, row.precision, row.beam))
        if bar and (ratio := row.ratios(ours)[0]) < bar:
            lines.append(f"{row.text}, {row.precision}, beam {row.beam}, {row.name}: {ratio:.2f} of {bar:.2f}")
    for model in models:
        for name, most in LOADED_BARS.get(model.precision, {}).items() if model.name == "ours" else ():
            if (taken := model.middle(name)) > most:
                lines.append(f"loading in {model.precision}, {name}: {taken:,.2f}, and {most:,.2f} is allowed")
    return lines


def unlike(rows: Sequence[Row]) -> list[str]:
    """Return a line for each row in which CTranslate2 gives too many other lines with the same weights."""
    return [
        f"{row.text}, beam {row.beam}: {row.identical:.2%}"
        for row in rows
        if row.precision == "fp32" and row.name == "CTranslate2" and row.identical < LEAST_IDENTICAL
    ]


def _print_head(columns: Sequence[str], left: int) -> None:
    print(f"\n| {' | '.join(columns)} |")
    print(f"|{' --- |' * left}{' ---: |' * (len(columns) - left)}")
