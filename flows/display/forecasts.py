"""Forecasts as text: a table for the terminal, warnings, and the comparison with what a run really took."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.display import reports
from flows.runs.machine import Free
from flows.runs.span import Span, StageForecast, total
from flows.runs.summary import RunSummary
from flows.settings import Prices

if TYPE_CHECKING:
    from rich.table import Table

_NARROW = 1.7
"""Ratio of the ends of a range up to which only its likely value is printed."""
_BUSY = 1.0  # programs for each CPU, before a run starts
_REMEDY_FOR_MEMORY = {
    "tokenizer": "lower tokenizer.sample_pairs",
    "train": "train on another machine, choose a smaller model, or lower train.micro_batch_tokens",
}


def rough_duration(seconds: float) -> str:
    """Format a duration that is not known exactly, with two digits or more, in its unit."""
    for limit, unit, size in ((120.0, "s", 1), (7_200.0, "min", 60), (172_800.0, "h", 3_600)):
        if seconds < limit:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds / 86_400)} days"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.2g}" if value >= 0.95 else f"{value:.1f}"


def time_of(span: Span | None) -> str:
    """Format a range of time: its likely value, with its ends if they are far apart."""
    if span is None:
        return "?"
    if span.high < 1:
        return "under 1 s"
    if span.high <= span.low * _NARROW:
        return f"about {rough_duration(span.likely)}"
    low, high = rough_duration(span.low), rough_duration(span.high)
    if low.split()[1] == high.split()[1]:
        low = low.split()[0]
    return f"{low} to {high}"


def money_of(span: Span | None, currency: str) -> str:
    """Format a range of money. Return an empty text for None."""
    if span is None:
        return ""
    if span.high <= span.low * _NARROW:
        return f"{reports.money(span.likely)} {currency}"
    return f"{reports.money(span.low)} to {reports.money(span.high)} {currency}"


def table(forecasts: Sequence[StageForecast], prices: Prices) -> "Table":
    """Return the table of all forecasts, with their sum."""
    from flows.display.tables import terminal_table

    has_money = bool(prices.gpu_hour or prices.cpu_hour)
    numbers = ("time", "memory", "disk", *(["money"] if has_money else []))
    basis = "estimate from"
    shown = terminal_table(("stage", *numbers, basis), numbers, folded={basis}, title="Forecast")
    for one in forecasts:
        price = one.money(prices.gpu_hour, prices.cpu_hour)
        cells = (time_of(one.seconds), _size(one.memory_bytes), _size(one.disk_bytes))
        shown.add_row(one.name, *cells, *([money_of(price, prices.currency)] if has_money else []), one.basis)
    if len(forecasts) > 1:
        shown.add_section()
        prices_of = [one.money(prices.gpu_hour, prices.cpu_hour) for one in forecasts]
        cells = (
            _more(forecasts, time_of(total(spans(forecasts)))),
            _size(most_memory(forecasts)),
            _size(disk(forecasts)),
        )
        money = money_of(total([one for one in prices_of if one]), prices.currency)
        shown.add_row("all", *cells, *([money] if has_money else []), "")
    return shown


def _more(forecasts: Sequence[StageForecast], text: str) -> str:
    """Mark a sum that lacks a stage."""
    return text if all(one.seconds for one in forecasts) else f"{text} + ?"


def _size(count: float | None) -> str:
    return "?" if count is None else reports.size(count)


def spans(forecasts: Sequence[StageForecast]) -> list[Span]:
    """Return the times that are known."""
    return [one.seconds for one in forecasts if one.seconds]


def disk(forecasts: Sequence[StageForecast]) -> float:
    """Return the disk space of all new artifacts, as far as it is known."""
    return sum(one.disk_bytes or 0 for one in forecasts)


def most_memory(forecasts: Sequence[StageForecast]) -> float:
    """Return the memory of the stage that needs the most."""
    return max((one.memory_bytes or 0 for one in forecasts), default=0)


def free_line(free: Free) -> str:
    """Return a line about what this machine has free."""
    limit = f", within the limit of {reports.size(free.memory_limit)} of this container" if free.memory_limit else ""
    return f"Free here: {reports.size(free.disk)} of disk, {reports.size(free.memory)} of memory{limit}."


def busy_line(free: Free) -> str:
    """Return a line about other programs that slow a run down, or "" if the machine has processors free."""
    if free.load < _BUSY:
        return ""
    return (
        f"Other programs keep this machine busy: {free.load:.1f} compete for each CPU. Forecasts are for a "
        "machine as busy as it was in the earlier runs, so a run may take longer now."
    )


def warnings(forecasts: Sequence[StageForecast], free: Free) -> list[str]:
    """Return a line with the remedy for each thing of which a run needs more than this machine has free."""
    lines = []
    if (needed := disk(forecasts)) > free.disk:
        lines.append(
            f"WARNING: the disk is too small: the run needs {reports.size(needed)}, and {reports.size(free.disk)} are "
            "free: free space, or set NMT_HOME to another disk"
        )
    for one in forecasts:
        if (one.memory_bytes or 0) > free.memory:
            remedy = _REMEDY_FOR_MEMORY.get(one.name, "lower clean.shard_pairs or NMT_THREADS")
            needs = f"{reports.size(one.memory_bytes or 0)}, and {reports.size(free.memory)} are free"
            lines.append(f"WARNING: {one.name} needs more memory than is free, {needs}: {remedy}")
    return lines


def beginning(forecasts: Sequence[StageForecast], free: Free) -> list[str]:
    """Return the lines to print before a run: its forecast, and what this machine lacks."""
    known = spans(forecasts)
    if not known:
        return warnings(forecasts, free)
    busy = [line] if (line := busy_line(free)) else []
    guess = ", a guess" if any(one.origin == "reference" for one in forecasts) else ""
    return [f"Forecast: {_more(forecasts, time_of(total(known)))}{guess}.", *busy, *warnings(forecasts, free)]


def compared(summary: RunSummary) -> str:
    """Return a line that compares the forecast of a finished run with what it took, or "" if nothing was forecast."""
    rows = [row for row in summary.stages if row.status == "done"]
    both = [(one.seconds, row.cost.seconds) for row in rows if (one := summary.forecast_of(row.name)) and one.seconds]
    if not both or len(both) < len(rows):
        return ""
    foreseen, took = total([span for span, _ in both]), sum(seconds for _, seconds in both)
    forecast_cpu = sum(one.cpu_seconds or 0 for one in summary.forecast if any(row.name == one.name for row in rows))
    cpu = sum(row.cost.cpu_seconds for row in rows)
    used = (
        f" Of CPU time they took {rough_duration(cpu)}, and the forecast was {rough_duration(forecast_cpu)}."
        if forecast_cpu
        else ""
    )
    return f"The stages took {rough_duration(took)}. The forecast was {time_of(foreseen)}{ratio(foreseen, took)}.{used}"


def ratio(span: Span, took: float) -> str:
    """Return how far a forecast was from the truth, in parentheses. Empty if one of them is zero."""
    if not (took and span.likely):
        return ""
    factor = took / span.likely
    direction = "low" if factor > 1 else "high"
    return f" (likely {rough_duration(span.likely)}; {max(factor, 1 / factor):.2f} times too {direction})"
