"""Rendering of a stage's report: Markdown for Prefect, numbers for MLflow, cells for the terminal.

A report is the JSON of a `StageReport`: numbers, texts, counts by name, and lists of records. Except for the titles of
some tables, nothing here depends on the stage.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from flows.display import markdown as markdown_of
from nmt_core.errors import counted, without_password

Report = Mapping[str, Any]

_ROWS_SHOWN = 200
_CHARACTERS_SHOWN = 60  # in a cell of a table of records, so that both sides of a pair fit
_COLUMNS = {
    "dropped": ("Reason", "Pairs"),
    "dropped_by_part": ("Part and reason", "Pairs"),
    "held_out": ("Held-out set", "Pairs"),
    "skipped": ("Corpus", "Reason"),
    "notes": ("Corpus", "Reading"),
    "planted": ("Kind", "Rows"),
    "source_languages": ("Language", "Pairs"),
    "target_languages": ("Language", "Pairs"),
    "tests": ("Test set", "Pairs"),
    "unused_pieces": ("Vocabulary", "Pieces"),
    "added_pieces": ("Vocabulary", "Pieces"),
    "useful_token_share": ("Batching", "Share"),
    "known_sentences": ("Test set", "Sentences"),
    "unknown_in_references": ("Test set", "Share"),
    "test_sets": ("Test set", "sha256"),
    "bleu": ("Precision", "BLEU"),
    "tokens_per_second": ("Precision", "Tokens per second"),
    "devices": ("Precision", "Device"),
    "bleu_changes": ("Precision", "Change of BLEU"),
    "not_published": ("Graphs", "Reason"),
    "bytes": ("File", "Size"),
    "by_status": ("Status", "Lines"),
    "made_by": ("Code", "Chunks"),
}
"""Titles of the columns of a table of values by name, by its field in the report."""
_SHARES = ("_share", "_utilisation", "source_unknown", "target_unknown", "unknown_in_references")
"""Endings of the names of fields that hold a share between 0 and 1."""
_NOT_IN_A_METRIC_NAME = re.compile(r"[^\w\-./ ]+")


def title(name: str) -> str:
    """Return a name as a title, such as `Items in` for `items_in`."""
    return name.replace("_", " ").strip().capitalize()


def cell(value: Any) -> str:
    """Return one value as text for people."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"
    if isinstance(value, list):
        return ", ".join(cell(item) for item in value)
    return without_password(str(value))


def markdown(heading: str, report: Report) -> str:
    """Return the whole report as Markdown."""
    parts = [
        f"# {markdown_of.plain(without_password(heading))}",
        markdown_of.table(["Measure", "Value"], list(_measures(report))),
    ]
    for key, value in report.items():
        if not _is_table(value) or not value:
            continue
        parts.append(f"## {markdown_of.plain(title(key))}")
        if isinstance(value, Mapping):
            counts = [[without_password(str(name)), _with_unit(key, count)] for name, count in value.items()]
            parts.append(markdown_of.table(_COLUMNS.get(key, ("Name", "Value")), counts))
        else:
            columns = list(value[0])
            rows = [[_shortened(cell(record.get(column))) for column in columns] for record in value[:_ROWS_SHOWN]]
            parts.append(markdown_of.table([title(column) for column in columns], rows))
            if len(value) > _ROWS_SHOWN:
                parts.append(f"... and {len(value) - _ROWS_SHOWN:,} more")
    return "\n\n".join(parts) + "\n"


def _measures(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the title and the value of each measure that a report has, with its unit."""
    for key, value in report.items():
        if _is_table(value) or key == "unit" or value in (None, "", [], ()):
            continue
        if key == "items_out" and (unit := report.get("unit")):
            yield title(key), counted(value, unit.removesuffix("s"), unit)
        else:
            yield title(key), _with_unit(key, value)


def _with_unit(key: str, value: Any) -> str:
    """Return a value of a field as text, with the unit that the name of the field tells."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return cell(value)
    if key == "bytes":
        return size(value)
    if key == "floating_point_operations":
        return f"{value:.2e}"
    if key.endswith(_SHARES) and math.isfinite(value):
        return f"{value:.2%}"
    return f"{cell(value)}{' s' if key.endswith('seconds') else ''}"


def metrics(report: Report) -> dict[str, float]:
    """Return every number of the report by a dotted name that MLflow accepts."""
    numbers: dict[str, float] = {}
    for key, value in report.items():
        if isinstance(value, Mapping):
            numbers |= {f"{key}.{name}": number for name, number in metrics(value).items()}
        elif isinstance(value, bool | int | float) and math.isfinite(value):
            numbers[key] = float(value)
        elif key == "scores":
            numbers |= {f"{score['metric']}.{score['test_set']}": float(score["score"]) for score in value}
    return {_NOT_IN_A_METRIC_NAME.sub("_", name): number for name, number in numbers.items()}


def size(count: float) -> str:
    """Format a number of bytes with a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} TB"


def money(amount: float | None) -> str:
    """Format an amount of money, with more decimals for small amounts. Return an empty text for None."""
    if amount is None:
        return ""
    return f"{amount:,.2f}" if amount >= 1 or not amount else f"{amount:.2g}"


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and bool(value) and isinstance(value[0], Mapping))


def _shortened(text: str) -> str:
    return text if len(text) <= _CHARACTERS_SHOWN else f"{text[:_CHARACTERS_SHOWN]}…"
