"""The result of a run in words: in its state, in its log, and on its first page."""

from datetime import UTC, datetime

import pytest

from flows.display.outcome import model_line, outcome, result_page, score_line, step_line
from flows.runs.summary import Champion, RegisteredModel, RunSummary, Score, StageSummary

BLEU = Score(test_set="test", metric="BLEU", score=31.24, signature="nrefs:1", low=30.1, high=32.5)
CHRF = Score(test_set="test", metric="chrF", score=55.0, signature="nrefs:1")


def stage(name: str, *, reused: bool = False, seconds: float = 3.14) -> StageSummary:
    done = {"items_in": 30_000, "items_out": 28_514, "unit": "pairs"}
    return StageSummary(
        name=name,
        fingerprint="f",
        status="done",
        reused=reused,
        seconds=seconds,
        **done,  # type: ignore[arg-type]
    )


def summary(*stages: StageSummary) -> RunSummary:
    return RunSummary(run_id="r", recipe="tiny", description="", started=datetime.now(UTC), stages=list(stages))


def model(*aliases: str) -> RegisteredModel:
    return RegisteredModel(name="tiny", version="4", aliases=list(aliases), verdict="is better")


def test_lines_of_a_log_say_what_the_table_of_the_terminal_says() -> None:
    assert step_line(stage("clean")) == "clean: 30,000 in, 28,514 pairs out, 3.1 s"
    assert step_line(stage("clean", reused=True)) == "clean: 30,000 in, 28,514 pairs out, reused"
    assert step_line(stage("register")) == "register: 3.1 s", "one model in and one out says nothing"
    assert score_line(BLEU).plain == "BLEU 31.24 (30.10 to 32.50) on test  (nrefs:1)"
    assert score_line(CHRF).plain == "chrF 55.00 on test  (nrefs:1)"
    assert model_line(model("champion")).plain == "Model tiny version 4 (champion): is better"


@pytest.mark.parametrize(
    ("aliases", "words"),
    [(["champion"], "BLEU 31.2, champion"), (["challenger"], "BLEU 31.2, challenger"), ([], "BLEU 31.2, version 4")],
)
def test_a_whole_run_is_its_score_and_what_became_of_its_model(aliases: list[str], words: str) -> None:
    run = summary(stage("evaluate"), stage("register"))
    run.metrics, run.model = [BLEU, CHRF], model(*aliases)
    assert outcome(run).startswith(words)


def test_other_runs_are_what_their_last_stage_made() -> None:
    assert outcome(summary()) == ""
    assert outcome(summary(stage("download"), stage("clean"))) == "28,514 pairs"
    assert outcome(summary(stage("clean", reused=True))) == "28,514 pairs, reused"
    assert outcome(summary(stage("download", reused=True), stage("clean", reused=True))) == (
        "28,514 pairs, all stages reused"
    )


@pytest.mark.parametrize(
    ("aliases", "before", "champion"),
    [
        (["champion"], None, "Champion: version 4, the model of this run"),
        (["champion"], "3", "Champion: version 4, the model of this run, in place of version 3"),
        (["challenger"], "3", "Champion: version 3. The model of this run is version 4"),
        (["challenger"], None, "Champion: none. The model of this run is version 4"),
    ],
)
def test_the_first_page_has_scores_verdict_champion_and_stages(
    aliases: list[str], before: str | None, champion: str
) -> None:
    run = summary(stage("clean", reused=True), stage("register"))
    run.metrics, run.model = [BLEU, CHRF], model(*aliases)
    run.champion = Champion(version=before, evaluate="e") if before else None
    page = result_page(run, "http://127.0.0.1/#/1", "file:///report.html")
    assert page.startswith("# tiny: BLEU 31.2")
    assert "| BLEU | 31.24 | 30.10 to 32.50 | test |" in page
    assert "| chrF | 55.00 |  | test |" in page
    assert "Verdict: is better" in page
    assert champion + "\n" in page
    assert "| clean | reused | 3.1 s | 30,000 | 28,514 pairs |" in page
    assert "| register | done | 3.1 s |  |  |" in page
    assert "[Report](file:///report.html), [run in MLflow](http://127.0.0.1/#/1)" in page
    assert "MLflow" not in result_page(run, "", "file:///report.html")


def test_one_item_has_its_noun_in_the_singular() -> None:
    average = stage("average").model_copy(update={"items_in": 10, "items_out": 1, "unit": "checkpoints"})
    assert step_line(average) == "average: 10 in, 1 checkpoint out, 3.1 s"
