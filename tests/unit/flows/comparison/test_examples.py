"""Sentences side by side: which are shown, whose translations, and which words are marked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars
import pytest

from flows.comparison.contenders import ComparedRun
from flows.comparison.examples import Examples, as_markdown, find_examples, on_a_terminal
from flows.runs.summary import RunSummary, Score, StageSummary
from flows.settings import Settings
from nmt_core.recipes.recipe import load_recipe

SOURCES = ["ein Haus", "der große Hund läuft nach Hause", "ja"]
REFERENCES = ["a house", "the big dog runs home", "yes"]
GOOD = ["a house", "the big dog runs home", "yes"]
POOR = ["a home", "the *big* dog walks", "qqq"]


class Runs:
    """Finished runs in a home, each with the translations that its evaluation left."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.settings = Settings.load({"NMT_HOME": str(home)})

    def add(
        self, recipe: str, hypotheses: Sequence[str], sources: Sequence[str] = SOURCES, **systems: Sequence[str]
    ) -> ComparedRun:
        run_id = f"{recipe}-{len(list(self.home.iterdir()))}"
        folder = self.home / f"evaluate-{run_id}"
        folder.mkdir()
        rows: dict[str, Any] = {"source": sources, "reference": REFERENCES, "hypothesis": hypotheses}
        polars.DataFrame(rows).write_parquet(folder / "news.sentences.parquet")
        if systems:
            others = {f"system:{name}": texts for name, texts in systems.items()}
            polars.DataFrame(rows | others).write_parquet(folder / "news.systems.parquet")
        summary = RunSummary.begin(load_recipe("quickstart"), run_id)
        summary.metrics = [Score(test_set="news", metric="BLEU", score=1, signature="")]
        summary.stages = [StageSummary(name="evaluate", fingerprint="0" * 32, status="done", artifact=str(folder))]
        summary.write(self.settings.runs)
        return ComparedRun(recipe=recipe, seed=1, run_id=run_id, status="finished")


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_sentences_are_chosen_by_the_first_recipe_and_shown_with_all_translations(runs: Runs) -> None:
    compared = [runs.add("poor", POOR, rival=["A", "B", "C"]), runs.add("good", GOOD), runs.add("poor", GOOD)]
    found = find_examples(compared, runs.settings, "worst")
    assert (found.test_set, found.left_out) == ("news", [])
    first = found.items[0]
    assert (
        first.source == "ja"
        and first.reference == "yes"
        and first.translations == {"poor": "qqq", "good": "yes", "rival": "C"}
    ), "seed 1"
    assert list(first.translations) == ["poor", "good", "rival"], "other systems come last"
    longest = find_examples(compared, runs.settings, "longest")
    assert [example.source for example in longest.items] == [SOURCES[1], SOURCES[0], SOURCES[2]]


def test_what_cannot_be_shown_is_named(runs: Runs) -> None:
    gone = ComparedRun(recipe="gone", seed=1, run_id="gone-1", status="finished")
    failed = ComparedRun(recipe="failed", seed=1, run_id="failed-1", status="failed")
    other = runs.add("other", POOR, ["a", "b", "c"])
    found = find_examples([failed, gone, runs.add("good", GOOD), other], runs.settings, "random")
    assert found.left_out == [
        "gone: its translations are no longer in the store",
        "other: its main test set, news, has other sentences",
    ]
    assert [example.translations for example in found.items] == [{"good": text} for text in GOOD]
    assert find_examples([failed], runs.settings, "random") == Examples()


def test_words_that_differ_from_the_reference_are_marked(runs: Runs) -> None:
    found = find_examples([runs.add("poor", POOR), runs.add("good", GOOD)], runs.settings, "longest")
    lines = as_markdown(found).splitlines()
    assert lines[:6] == [
        "**news, example 1**",
        "",
        "- source: der große Hund läuft nach Hause",
        "- reference: the big dog runs home",
        "- poor: the **\\***big**\\*** dog **walks**",
        "- good: the big dog runs home",
    ]
    printed = list(on_a_terminal(found))
    poor = next(line for line in printed if line.plain.startswith("poor") and "walks" in line.plain)
    bold = [poor.plain[span.start : span.end] for span in poor.spans if span.style == "bold red"]
    assert bold == ["*", "*", "walks"]
    assert next(line for line in printed if line.plain.startswith("good")).spans[1:] == []
