"""Report section about other systems: their scores beside the model's, and translations side by side."""

from typing import Any

from flows.html_report.blocks import Block, Marked, Run, Section, Sentences, Table, Text, number
from flows.html_report.differences import with_differences
from nmt_core.errors import counted
from nmt_core.evaluate.examples import choose
from nmt_core.evaluate.system_scores import read_systems
from nmt_core.evaluate.verdict import interval

_EXAMPLES = 8
_CAPTIONS = {"random": "Random sentences", "longest": "Longest sentences", "worst": "Lowest chrF of the new model"}
_VERDICTS = {"better": "significantly better", "worse": "significantly worse", "neither": "neither", "": ""}


def has_systems(run: Run) -> bool:
    """Return True if the recipe of a run names other systems."""
    return bool(run.config.get("evaluate", {}).get("systems"))


def systems(run: Run) -> Section:
    """Show the scores of other systems with the difference from the model, and translations of the main test set."""
    title, report = "Other systems", run.report("evaluate")
    if report is None:
        return Section(title, [run.missing("evaluate")])
    rows = [
        [
            row["system"],
            row["test_set"],
            row["metric"],
            number(row["score"]),
            number(row["own"]),
            number(row["difference"]),
            "" if row["low"] is None else interval(row["low"], row["high"]),
            number(row["p_value"], 3),
            _VERDICTS[row["verdict"]],
        ]
        for row in report.get("systems", [])
    ]
    about = Text(
        "All systems translated the same sentences. The difference is the new model's score minus the system's, with "
        "its 95% interval by paired bootstrap resampling."
    )
    columns = ["System", "Test set", "Metric", "Score", "New model", "Difference", "95% interval", "p", "New model is"]
    table: list[Block] = [about, Table(columns, rows, is_stacked=True)] if rows else []
    return Section(title, [*table, *_left_out(report), *_examples(run, report)])


def _left_out(report: dict[str, Any]) -> list[Block]:
    rows = [[name, reason] for name, reason in report.get("not_compared", {}).items()]
    return [Text("These were left out:"), Table(["System", "Reason"], rows, is_stacked=True)] if rows else []


def _examples(run: Run, report: dict[str, Any]) -> list[Block]:
    artifact = run.artifact("evaluate")
    rows = read_systems(artifact.path, report["scores"][0]["test_set"]) if artifact and report["scores"] else None
    if rows is None:
        return []
    names = [name for name in rows.columns if name not in {"source", "reference", "hypothesis"}]
    blocks: list[Block] = []
    for kind, caption in _CAPTIONS.items():
        items = []
        for row in rows[choose(rows, kind, _EXAMPLES)].iter_rows(named=True):
            reference = row["reference"]
            parts: list[tuple[str, str | Marked]] = [("source", row["source"]), ("reference", reference)]
            parts.append(("new model", with_differences(row["hypothesis"], reference)))
            parts += [(name, with_differences(row[name], reference)) for name in names]
            items.append((counted(len(row["source"].split()), "word"), parts))
        blocks.append(Sentences(caption, items, is_open=kind == "random"))
    return blocks
