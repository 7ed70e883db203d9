"""The scores of a run, and the metrics that were left out."""

import json
from pathlib import Path

import pytest

from flows.html_report.blocks import Run, Table, Text
from flows.html_report.quality import scores
from flows.runs.summary import RunSummary
from flows.settings import Settings
from nmt_core.recipes.recipe import load_recipe
from nmt_core.store.artifacts import REPORT, Artifact


class Evaluated(Run):
    """A run whose evaluation is a folder with a report."""

    evaluated: Path

    def artifact(self, stage: str) -> Artifact | None:
        return Artifact(stage, "0" * 32, self.evaluated) if stage == "evaluate" else None


@pytest.mark.parametrize("not_scored", [{}, {"COMET-22 of news": "`comet`: cannot be started"}])
def test_metrics_are_named_with_their_direction_and_those_left_out_with_their_reason(
    not_scored: dict[str, str], tmp_path: Path
) -> None:
    rows = [("BLEU", 31.25), ("TER", 48.5)]
    found = [
        {"test_set": "news", "metric": metric, "score": score, "signature": f"{metric}|v", "low": None, "high": None}
        for metric, score in rows
    ]
    (tmp_path / REPORT).write_text(json.dumps({"scores": found, "not_scored": not_scored}))
    summary = RunSummary.begin(load_recipe("quickstart"), "20260101-000000-tiny-0000")
    run = Evaluated(summary, Settings.load({"NMT_HOME": str(tmp_path)}))
    run.evaluated = tmp_path
    table, *rest = (block for block in scores(run).blocks if isinstance(block, Table))
    assert [row[1:3] for row in table.rows] == [["BLEU", "31.25"], ["TER (lower is better)", "48.50"]]
    assert [list(row) for block in rest for row in block.rows] == [list(pair) for pair in not_scored.items()]
    said = [block.text for block in scores(run).blocks if isinstance(block, Text)]
    assert ("These metrics were left out:" in said) == bool(not_scored)


def test_suites_are_shown_with_their_sizes_and_what_a_change_costs(tmp_path: Path) -> None:
    few = "news has 2 sentences for it"
    rows = [
        {"suite": "news+typos", "sentences": 90, "total": 100, "chrf": 41, "chrf_unchanged": 55.5, "not_scored": ""},
        {"suite": "news+names", "sentences": 2, "total": 100, "chrf": None, "chrf_unchanged": None, "not_scored": few},
    ]
    (tmp_path / REPORT).write_text(json.dumps({"scores": [], "suites": rows}))
    summary = RunSummary.begin(load_recipe("quickstart"), "20260101-000000-tiny-0000")
    run = Evaluated(summary, Settings.load({"NMT_HOME": str(tmp_path)}))
    run.evaluated = tmp_path
    _, table = (block for block in scores(run).blocks if isinstance(block, Table))
    assert [list(row) for row in table.rows] == [
        ["news+typos", "90 of 100", "41.00", "55.50", ""],
        ["news+names", "2 of 100", "", "", few],
    ]
