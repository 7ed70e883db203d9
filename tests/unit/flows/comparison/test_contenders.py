"""Runs of a comparison and their order, the values that it reads of each run, and the final table."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from flows.comparison.contenders import ComparedRun, contenders, measured
from flows.comparison.printing import print_comparison
from flows.comparison.table import by_length, main_table, markdown, notes, rows
from flows.runs.summary import RunSummary, Score, StageSummary
from nmt_core.errors import ConfigError
from nmt_core.evaluate.length_bucket import LengthBucket
from nmt_core.recipes.recipe import load_recipe
from nmt_core.store.artifacts import REPORT


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMT_HOME", str(tmp_path))


def a_run(recipe: str = "base", seed: int = 1, **values: Any) -> ComparedRun:
    return ComparedRun(recipe=recipe, seed=seed, run_id=f"{recipe}-{seed}", **{"status": "finished"} | values)


def test_every_recipe_has_its_first_seed_before_any_has_its_second() -> None:
    found = contenders(["quickstart", "table3-a1"], ["train.seed=7"], seeds=2)
    assert [(one.label, one.config.train.seed) for one in found] == [
        ("quickstart", 7),
        ("table3-a1", 7),
        ("quickstart", 8),
        ("table3-a1", 8),
    ]
    assert found[0].config == load_recipe("quickstart", ["train.seed=7"])


def test_a_recipe_may_have_changes_of_its_own() -> None:
    plain, changed = contenders(
        ["quickstart", "quickstart+model.norm=pre+train.adam_epsilon=1e+3"], ["model.d_ff=64"], 1
    )
    assert changed.label == "quickstart+model.norm=pre+train.adam_epsilon=1e+3"
    assert (changed.config.model.norm, changed.config.train.adam_epsilon) == ("pre", 1_000)
    assert plain.config.model == changed.config.model.model_copy(update={"norm": "post"})
    assert plain.config.model.d_ff == 64


def test_a_change_of_ones_own_goes_before_one_of_all() -> None:
    plain, changed = contenders(["quickstart", "quickstart+model.dropout=0"], ["model.dropout=0.2"], 1)
    assert (plain.config.model.dropout, changed.config.model.dropout) == (0.2, 0)


def test_a_path_with_a_plus_is_a_path(tmp_path: Path) -> None:
    file = tmp_path / "a+train.seed=1.yaml"
    file.write_text("name: mine\nbase: quickstart\n")
    (found,) = contenders([str(file)], [], 1)
    assert found.label == "mine"


def test_changes_may_be_longer_than_the_name_of_a_file() -> None:
    many = "+".join(["quickstart", *(f"train.max_updates={number}" for number in range(100))])
    assert contenders([many], [], 1)[0].config.train.max_updates == 99


def test_all_take_over_the_text_of_one() -> None:
    found = contenders(["table3-a1", "table3-e"], [], 1, corpus_of="quickstart")
    assert {one.config.corpus for one in found} == {load_recipe("quickstart").corpus}
    assert [one.config.model.num_heads for one in found] == [1, 8]


@pytest.mark.parametrize(
    ("recipes", "message"),
    [
        (["quickstart", "quickstart"], "quickstart is listed twice: give recipes with different names"),
        (["quickstart", "quickstrat"], "did you mean 'quickstart'?"),
        (["quickstart+model.nrom=pre"], "model.nrom is not a key: did you mean 'norm'?"),
    ],
)
def test_a_wrong_recipe_is_told_before_anything_runs(recipes: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        contenders(recipes, [], 1)
    assert message in str(caught.value)


REPORTS: dict[str, dict[str, Any]] = {
    "encode": {"vocab_size": 8_000, "target_tokens_per_sentence": 12.5, "target_unknown": 0.5},
    "train": {"updates": 100, "tokens": 390_000, "seconds": 7_200.0},
    "average": {
        "strategy": "last",
        "checkpoints": ["60", "80", "100"],
        "taken": "averaged",
        "averaged_dev_loss": 2.0,
        "best_single": 80,
        "best_single_dev_loss": 2.1,
    },
    "export": {"items_in": 1_234, "bleu": {"fp32": 20.5}},
    "evaluate": {"by_length": [], "unknown_in_references": {"news": 0.02, "web": 0.9}},
}


def a_summary(folder: Path, reports: dict[str, dict[str, Any]]) -> RunSummary:
    """Return the summary of a run whose stages made these reports. The last attempt of each took a second."""
    (one,) = contenders(["quickstart"], [], 1)
    summary = RunSummary.begin(one.config, "run")
    for name, report in reports.items():
        made = folder / name
        made.mkdir()
        (made / REPORT).write_text(json.dumps(report))
        summary.stages.append(StageSummary(name=name, fingerprint="12", status="done", seconds=1, artifact=str(made)))
    summary.metrics = [
        Score(test_set=name, metric="BLEU", score=score, signature="x") for name, score in (("news", 30), ("web", 10))
    ]
    summary.end(None)
    return summary


def test_a_run_is_measured_by_what_its_artifacts_report(tmp_path: Path) -> None:
    (one,) = contenders(["quickstart"], [], 1)
    run = measured(one, a_summary(tmp_path, REPORTS))
    assert (run.status, run.bleu, run.dev_bleu, run.parameters) == ("finished", 30, 20.5, 1_234)
    assert run.hours == 2, "of all attempts, and not of the one that ended it"
    assert (run.updates, run.trained_tokens) == (100, 390_000)
    assert (run.pieces, run.tokens_per_sentence) == (8_000, 12.5)
    assert run.unknown == 0.02, "of the first test set, not of the training text"
    assert run.weights == "average of 3"
    assert run.dev_perplexity == run.averaged_dev_perplexity == pytest.approx(math.exp(2.0))
    assert run.best_single_dev_perplexity == pytest.approx(math.exp(2.1))


@pytest.mark.parametrize(
    ("average", "weights", "perplexity"),
    [
        ({"taken": "single"}, "best alone", math.exp(2.1)),
        ({"taken": "single", "averaged_dev_loss": None}, "best alone", math.exp(2.1)),
        ({"strategy": "best"}, "average of 3", math.exp(2.0)),
        ({"strategy": "last", "checkpoints": ["100"]}, "last alone", math.exp(2.0)),
        ({"strategy": "ema", "checkpoints": ["100"]}, "moving average", math.exp(2.0)),
    ],
)
def test_what_averaging_led_to_is_told(
    tmp_path: Path, average: dict[str, Any], weights: str, perplexity: float
) -> None:
    (one,) = contenders(["quickstart"], [], 1)
    run = measured(one, a_summary(tmp_path, {"average": REPORTS["average"] | average}))
    assert run.weights == weights
    assert run.dev_perplexity == pytest.approx(perplexity)
    assert (run.averaged_dev_perplexity is None) == (average.get("averaged_dev_loss", 0) is None)


def test_a_run_that_stopped_early_has_what_it_came_to(tmp_path: Path) -> None:
    (one,) = contenders(["quickstart"], [], 1)
    summary = a_summary(tmp_path, {"encode": REPORTS["encode"]})
    summary.metrics = []
    run = measured(one, summary)
    assert (run.pieces, run.hours, run.weights, run.unknown) == (8_000, None, "", None)


def test_which_weights_were_exported_is_a_column() -> None:
    averaged, single = a_run("x", 1, weights="average of 5"), a_run("x", 2, weights="best alone")
    table = rows([averaged, single, a_run("x", 3, weights="average of 5"), a_run("y", weights="moving average")])
    headings, *lines = main_table([*table, *rows([a_run("failed", status="failed")])])
    assert headings[-2:] == ["weights", "runs"]
    assert [line[-2] for line in lines] == ["average of 5 (2), best alone (1)", "moving average", "-"]


def test_a_row_is_the_mean_of_its_seeds() -> None:
    (row,) = rows([a_run(seed=seed, bleu=bleu, parameters=1_234) for seed, bleu in ((1, 20.0), (2, 22.0), (3, 24.0))])
    assert row.measures["bleu"].mean == 22
    assert row.measures["bleu"].deviation == 2, "of a sample: divided by one less"
    shown = dict(zip(*main_table([row]), strict=True))
    assert (shown["BLEU"], shown["parameters"], shown["chrF"], shown["runs"]) == ("22.00 ± 2.00", "1,234", "-", "3")


def buckets(test_set: str, *scores: float) -> list[LengthBucket]:
    return [
        LengthBucket(
            test_set=test_set,
            shortest=5 * place + 1,
            longest=5 * place + 5,
            mean=5 * place + 3,
            unit="words",
            sentences=10,
            bleu=bleu,
        )
        for place, bleu in enumerate(scores)
    ]


def test_bleu_by_length_is_the_mean_of_the_seeds() -> None:
    table = rows(
        [
            a_run("fixed", 1, by_length=buckets("test", 30, 10)),
            a_run("fixed", 2, by_length=buckets("test", 32, 10)),
            a_run("another test set", by_length=buckets("other", 30, 10)),
            a_run("failed", status="failed"),
        ]
    )
    assert by_length(table) == [
        ["BLEU by words of the source", "1-5", "6-10"],
        ["fixed", "31.0 ± 1.4", "10.0"],
        ["another test set", "-", "-"],
        ["failed", "-", "-"],
    ]
    assert "| fixed | 31.0 ± 1.4 | 10.0 |" in markdown(table).splitlines()
    assert by_length(rows([a_run("failed", status="failed")])) == []


def test_what_all_rows_have_alike_of_the_text_is_no_column() -> None:
    word, bpe = (
        a_run("word", pieces=9_000, unknown=0.0312, tokens_per_sentence=9.5),
        a_run("bpe", pieces=9_000, unknown=0.0),
    )
    headings, *lines = main_table(rows([word, bpe]))
    assert headings[-4:] == ["hours", "<unk> in references", "weights", "runs"]
    assert [line[-3] for line in lines] == ["3.12%", "0.00%"]


def test_rows_stand_in_the_order_of_the_recipes() -> None:
    runs = [a_run(recipe, seed) for seed in (1, 2) for recipe in ("b", "a")]
    assert [(row.recipe, len(row.runs)) for row in rows(runs)] == [("b", 2), ("a", 2)]


def test_a_failed_run_counts_in_no_mean_and_is_told() -> None:
    table = rows([a_run(bleu=20.0), a_run(seed=2, status="failed", error="train: no\nmemory", updates=5)])
    assert main_table(table)[1][-1] == "1 of 2 failed"
    assert (table[0].measures["bleu"].mean, table[0].measures["bleu"].deviation) == (20, None)
    assert notes(table)[:2] == ["base, seed 1: base-1", "base, seed 2: base-2: train: no\nmemory"]


def test_each_signature_is_told_once() -> None:
    told = notes(rows([a_run(signatures=["BLEU on test: x"]), a_run("other", signatures=["BLEU on test: x"])]))
    assert told.count("BLEU on test: x") == 1


def test_the_table_on_a_terminal_keeps_what_looks_like_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison([a_run("mine+corpus.train=[a.tsv]", bleu=20.0, signatures=["BLEU on test: x"])], "table")
    shown = capsys.readouterr().out
    assert "mine+corpus.train=[a.tsv]" in shown
    assert "20.00" in shown
    assert "mine+corpus.train=[a.tsv], seed 1: mine+corpus.train=[a.tsv]-1" in shown
    assert "BLEU on test: x" in shown


def test_the_table_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [a_run(bleu=20.0), a_run(seed=2, bleu=21.0)]
    print_comparison(runs, "json")
    (row,) = json.loads(capsys.readouterr().out)
    assert row["recipe"] == "base"
    assert row["measures"]["bleu"]["mean"] == 20.5
    assert [ComparedRun.model_validate(run) for run in row["runs"]] == runs


def test_the_table_as_markdown() -> None:
    lines = markdown(rows([a_run(bleu=20.0), a_run("big", bleu=21.5)])).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 4
    assert table[0].startswith("| recipe | parameters | updates | trained tokens | dev perplexity | dev BLEU | BLEU |")
    assert {line.count("|") for line in table} == {12}
    assert table[3].startswith("| big | - |")
    assert "- base, seed 1: base-1" in lines
