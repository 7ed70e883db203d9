"""One model for two pairs, from text to scores: the toy corpus in both directions, through all stages."""

import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from support.small import SMALL

from nmt_core.bundle.folder import read_bundle
from nmt_core.drift.training import read_training_profile
from nmt_core.recipes.recipe import load_recipe
from nmt_core.store.artifacts import Artifact
from nmt_core.translator import Translator

HANGUL, LATIN = re.compile("[가-힣]"), re.compile("[A-Za-z]")
CHANGES: dict[str, Any] = {
    "corpus.toy.pairs": 1_000,
    "languages.pairs": "[en-ko, ko-en]",
    "mix.temperature": 5,
    "tokenizer.vocab_size": 600,
    "train.max_updates": 150,
    "train.warmup_updates": 40,
    "train.validate_every": 75,
    "train.checkpoint_every": 75,
    "export.parity_sentences": 3,
    "export.quality_sentences": 20,
    "evaluate.interval_samples": 0,
}


@pytest.mark.cpu(25)
def test_one_model_learns_to_write_the_language_that_its_token_names(
    run_until: Callable[..., dict[str, Artifact]],
) -> None:
    config = load_recipe("quickstart", [f"{name}={value}" for name, value in (SMALL | CHANGES).items()])
    made = run_until(config, "evaluate")

    report = made["evaluate"].report()
    scores = {(one["test_set"], one["metric"]): one["score"] for one in report["scores"]}
    assert {name for name, _ in scores} == {"toy-en-ko", "toy-ko-en"}
    assert {sample["pair"] for sample in report["samples"]} == {"en-ko", "ko-en"}, "evaluate.sentences are of the first"
    assert made["export"].report()["identical_beams"] == made["export"].report()["compared_sentences"]
    assert read_bundle(made["export"].path).languages.pairs == ("en-ko", "ko-en")

    english_text, korean_text = (read_training_profile(made["export"].path, pair) for pair in ("en-ko", "ko-en"))
    assert english_text and korean_text
    assert english_text.categories["script"]["Latin"] == english_text.lines, "a pair has its own language's text alone"
    assert korean_text.categories["script"]["Hangul"] == korean_text.lines
    whole = read_training_profile(made["export"].path)
    assert whole and whole.lines == english_text.lines + korean_text.lines

    translator = Translator.load(made["export"].path, config.search)
    sentences = pl.read_parquet(made["split"].path / "test-toy-en-ko.parquet")
    korean = [one.text for one in translator.translate(sentences["source"].to_list(), to="ko")]
    english = [one.text for one in translator.translate(sentences["target"].to_list(), to="en")]
    assert korean == (made["evaluate"].path / "toy-en-ko.hypotheses.txt").read_text(encoding="utf-8").splitlines()
    assert sum(bool(HANGUL.search(text)) and not LATIN.search(text) for text in korean) > 0.9 * len(korean)
    assert sum(bool(LATIN.search(text)) and not HANGUL.search(text) for text in english) > 0.9 * len(english)
