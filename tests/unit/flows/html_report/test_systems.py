"""Other systems in the report: their scores, and translations side by side."""

import json
from pathlib import Path

import polars

from flows.html_report.blocks import Marked, Run, Sentences, Table, Text
from flows.html_report.page import page
from flows.html_report.systems import has_systems, systems
from flows.runs.summary import RunSummary
from flows.settings import Settings
from nmt_core.recipes.recipe import load_recipe
from nmt_core.store.artifacts import REPORT, Artifact


class Evaluated(Run):
    """A run whose evaluation is a folder with a report."""

    evaluated: Path

    def artifact(self, stage: str) -> Artifact | None:
        return Artifact(stage, "0" * 32, self.evaluated) if stage == "evaluate" else None


def run_with(tmp_path: Path, systems: str) -> Evaluated:
    config = load_recipe("quickstart", [f"evaluate.systems={systems}"] if systems else [])
    summary = RunSummary.begin(config, "20260101-000000-tiny-0000")
    run = Evaluated(summary, Settings.load({"NMT_HOME": str(tmp_path)}))
    run.evaluated = tmp_path
    return run


def test_a_table_and_examples_show_each_system(tmp_path: Path) -> None:
    about = {"system": "rival", "test_set": "news", "metric": "BLEU"}
    known = about | {"score": 30, "own": 32.5, "difference": 2.5, "low": 0.5, "high": 4, "p_value": 0.01}
    rows = [
        known | {"verdict": "better"},
        known | {"metric": "chrF", "low": None, "high": None, "p_value": None, "verdict": ""},
    ]
    report = {"scores": [{"test_set": "news"}], "systems": rows, "not_compared": {"gone on news": "is not there"}}
    (tmp_path / REPORT).write_text(json.dumps(report))
    polars.DataFrame(
        {"source": ["ein Haus"], "reference": ["a house"], "hypothesis": ["a house"], "system:rival": ["a home"]}
    ).write_parquet(tmp_path / "news.systems.parquet")
    run = run_with(tmp_path, '[{"name": "rival", "file": "out.txt"}]')
    assert has_systems(run)
    blocks = systems(run).blocks
    scores, reasons = (block for block in blocks if isinstance(block, Table))
    assert list(scores.rows[0][3:]) == ["30.00", "32.50", "2.50", "+0.50 to +4.00", "0.010", "significantly better"]
    assert list(scores.rows[1][6:]) == ["", "", ""]
    assert [list(row) for row in reasons.rows] == [["gone on news", "is not there"]]
    examples = [block for block in blocks if isinstance(block, Sentences)]
    assert [block.caption for block in examples] == [
        "Random sentences",
        "Longest sentences",
        "Lowest chrF of the new model",
    ]
    parts = dict(examples[0].items[0][1])
    assert parts["source"] == "ein Haus"
    assert isinstance(parts["rival"], Marked) and ("home", True) in parts["rival"].parts
    assert isinstance(parts["new model"], Marked) and not any(marked for _, marked in parts["new model"].parts)
    assert any(isinstance(block, Text) and "left out" in block.text for block in blocks)
    assert "Other systems" in page(run) and "significantly better" in page(run)


def test_a_run_without_other_systems_has_no_such_section(tmp_path: Path) -> None:
    assert not has_systems(run_with(tmp_path, ""))
