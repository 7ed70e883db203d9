"""What a comparison runs, in which order, and the table that it ends in."""

from pathlib import Path
from typing import Any

import pytest

from flows.comparison import MEASURES, ComparedRun, cells, contenders, headings, markdown, notes, rows
from nmt_core.errors import ConfigError
from nmt_core.recipe import load_recipe


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


def test_a_path_with_a_plus_is_a_path(tmp_path: Path) -> None:
    file = tmp_path / "a+train.seed=1.yaml"
    file.write_text("name: mine\nbase: quickstart\n")
    (found,) = contenders([str(file)], [], 1)
    assert found.label == "mine"


def test_all_take_over_the_text_of_one() -> None:
    found = contenders(["table3-a1", "table3-e"], [], 1, corpus_of="quickstart")
    assert {one.config.corpus for one in found} == {load_recipe("quickstart").corpus}
    assert [one.config.model.num_heads for one in found] == [1, 8]


@pytest.mark.parametrize(
    ("recipes", "message"),
    [
        (["quickstart", "quickstart"], "quickstart is there twice: give recipes with names of their own"),
        (["quickstart", "quickstrat"], "did you mean 'quickstart'?"),
        (["quickstart+model.nrom=pre"], "model.nrom is not a key: did you mean 'norm'?"),
    ],
)
def test_a_wrong_recipe_is_told_before_anything_runs(recipes: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        contenders(recipes, [], 1)
    assert message in str(caught.value)


def test_a_row_is_the_mean_of_its_seeds() -> None:
    (row,) = rows([a_run(seed=seed, bleu=bleu, parameters=1_234) for seed, bleu in ((1, 20.0), (2, 22.0), (3, 24.0))])
    assert row.measures["bleu"].mean == 22
    assert row.measures["bleu"].deviation == 2, "of a sample: divided by one less"
    shown = dict(zip(headings(), cells(row), strict=True))
    assert (shown["BLEU"], shown["parameters"], shown["chrF"], shown["runs"]) == ("22.00 ± 2.00", "1,234", "-", "3")


def test_rows_stand_in_the_order_of_the_recipes() -> None:
    runs = [a_run(recipe, seed) for seed in (1, 2) for recipe in ("b", "a")]
    assert [(row.recipe, len(row.runs)) for row in rows(runs)] == [("b", 2), ("a", 2)]


def test_a_failed_run_counts_in_no_mean_and_is_told() -> None:
    table = rows([a_run(bleu=20.0), a_run(seed=2, status="failed", error="train: no\nmemory", updates=5)])
    assert cells(table[0])[-1] == "1 of 2 failed"
    assert (table[0].measures["bleu"].mean, table[0].measures["bleu"].deviation) == (20, None)
    assert notes(table)[:2] == ["base, seed 1: base-1", "base, seed 2: base-2: train: no\nmemory"]


def test_each_signature_is_told_once() -> None:
    told = notes(rows([a_run(signatures=["BLEU on test: x"]), a_run("other", signatures=["BLEU on test: x"])]))
    assert told.count("BLEU on test: x") == 1


def test_the_table_as_markdown() -> None:
    lines = markdown(rows([a_run(bleu=20.0), a_run("big", bleu=21.5)])).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 4
    assert {line.count("|") for line in table} == {len(MEASURES) + 3}
    assert table[3].startswith("| big | - |")
    assert "- base, seed 1: base-1" in lines
