"""The trainings of a run with rounds, as its summary and its report show them."""

import json
from pathlib import Path

import pytest
import yaml

from flows.html_report import blocks, operation, quality
from flows.registry.candidate import Candidate
from flows.registry.model_card import model_card
from flows.runs.rounds import Rounds
from flows.runs.selection import Selection
from flows.runs.summary import RunSummary, Score, StageSummary
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.store.artifacts import Artifact

MADE = {"name": "made", "text": "target_monolingual", "teachers": "reverse"}


def values(source: str, target: str) -> dict[str, object]:
    corpus = {
        "train": [{"name": "pairs", "address": "pairs.tsv"}],
        "test": [{"name": "news", "address": "news.tsv"}],
        "monolingual": [{"name": "alone", "side": "target", "address": "alone.txt"}],
    }
    languages = {"source": source, "target": target}
    return {"name": f"{source}-{target}", "languages": languages, "corpus": corpus, "synthesis": {"parts": [MADE]}}


@pytest.fixture
def config(tmp_path: Path) -> PipelineConfig:
    file = tmp_path / "de-en.yaml"
    file.write_text(yaml.safe_dump(values("de", "en")))
    rounds = {"count": 2, "other_direction": str(file)}
    return PipelineConfig.model_validate(values("en", "de") | {"rounds": rounds})


@pytest.fixture
def rounds(config: PipelineConfig) -> Rounds:
    """Rounds whose trainings before the last one are done, as far as their summaries show."""
    made = Rounds(config, Selection(), lambda _: None)
    for number, earlier in enumerate(made.earlier()):
        made.add(trained(earlier, f"run-{number}", 20.0 + number))
    return made


def trained(config: PipelineConfig, run_id: str, bleu: float) -> RunSummary:
    summary = RunSummary.begin(config, run_id)
    row = StageSummary(name="export", fingerprint=run_id, status="done", artifact=f"/{run_id}")
    summary.stages.append(row)
    summary.metrics.append(Score(test_set="news", metric="BLEU", score=bleu, signature=""))
    return summary


def with_costs(summary: RunSummary, folder: Path, tokens: int) -> RunSummary:
    """Give a run the artifacts of a translation and a training with these numbers of tokens."""
    teacher = {"part": "made", "teacher": "export/1", "seconds": 2.5, "tokens": tokens + 1}
    teacher |= {"sentences": 300, "sha256": "0" * 64}
    for stage, report in (("synthesise", {"teachers": [teacher]}), ("train", {"seconds": 300, "tokens": tokens})):
        made = folder / f"{stage}-{tokens}"
        made.mkdir()
        (made / "report.json").write_text(json.dumps(report))
        summary.stages.append(StageSummary(name=stage, fingerprint="1", status="reused", artifact=str(made)))
    return summary


def tables(summary: RunSummary, folder: Path) -> list[list[list[str]]]:
    section = quality.rounds(blocks.Run(summary, Settings.load({"NMT_HOME": str(folder)})))
    return [[list(row) for row in block.rows] for block in section.blocks if isinstance(block, blocks.Table)]


def test_the_rounds_before_a_last_training_that_fails_are_reported(rounds: Rounds, tmp_path: Path) -> None:
    summary = RunSummary.begin(rounds.config, "last")
    with pytest.raises(StageError), rounds.recorded_in(summary):
        begun = list(summary.rounds)
        raise StageError("train: out of memory")
    summary.end(StageError("train: out of memory"))
    assert summary.rounds == begun, "a run that is killed has them too"
    assert [row.run_id for row in summary.rounds] == ["run-0", "run-1", "run-2", "last"]
    by_score, models = tables(summary, tmp_path)
    assert by_score == [["de-en", "news", "BLEU", "20.00", "22.00 (+2.00)"], ["en-de", "news", "BLEU", "21.00", ""]]
    assert [row[:3] for row in models][-1] == ["2", "en-de", "not registered"]
    assert [row[-1] for row in models] == ["", "", "", "this run: failed"]


def test_a_last_training_that_ends_is_a_row_with_its_scores(rounds: Rounds, tmp_path: Path) -> None:
    summary = RunSummary.begin(rounds.config, "last")
    with rounds.recorded_in(summary):
        summary.metrics = trained(rounds.config, "last", 22.5).metrics
    summary.end(None)
    by_score, models = tables(summary, tmp_path)
    assert by_score[1] == ["en-de", "news", "BLEU", "21.00", "22.50 (+1.50)"]
    assert len(models) == 4 and models[-1][-1] == ""


def test_time_and_tokens_of_each_part_are_reported(config: PipelineConfig, tmp_path: Path) -> None:
    """A repeated run shows the figures of the run that did the work."""
    made = Rounds(config, Selection(), lambda _: None)
    for number, earlier in enumerate(made.earlier()):
        made.add(with_costs(trained(earlier, f"run-{number}", 20.0), tmp_path, 1_000 * (number + 1)))
    summary = with_costs(RunSummary.begin(made.config, "last"), tmp_path, 4_000)
    with made.recorded_in(summary):
        pass
    run = blocks.Run(summary, Settings.load({"NMT_HOME": str(tmp_path)}))
    captions = {block.caption: block.rows for block in operation.cost(run).blocks if isinstance(block, blocks.Table)}
    rows = captions["Translation and training"]
    assert [row[0] for row in rows[::2]] == ["Round 1, de-en", "Round 1, en-de", "Round 2, de-en", "Round 2, en-de"]
    assert rows[2][1:] == ["Translation of made by export/1", "2.5 s", "2,001"]
    assert rows[7][1:] == ["Training", "5.0 min", "4,000"]
    nothing = Artifact("export", "0" * 32, tmp_path / "nothing")
    synthesise = Artifact("synthesise", "0" * 32, tmp_path / "synthesise-4000")
    card = model_card(
        made.config, Candidate(nothing, nothing, rounds=summary.rounds, synthesise=synthesise)
    ).splitlines()
    assert "- Translation of made by export/1: 4,001 target tokens, 2.5 s" in card
    assert "- Round 2, de-en, Training: 3,000 target tokens, 5 min" in card
    assert not any("Round 2, en-de" in line for line in card), "this model is not among the earlier ones"


def test_a_run_without_rounds_has_no_rows(config: PipelineConfig) -> None:
    without = config.model_copy(update={"rounds": type(config.rounds)()})
    single = Rounds(without, Selection(last="split"), lambda _: None)
    summary = RunSummary.begin(without, "alone")
    with single.recorded_in(summary):
        pass
    assert (list(single.earlier()), summary.rounds) == ([], [])
