"""A language is added to a trained model, through all stages and the gate: the older pairs are not forgotten."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sacrebleu import corpus_chrf
from support.small import SMALL

from nmt_core.recipes.recipe import load_recipe
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.tokenizer import SPM_FILE
from nmt_core.translator import Translator

GREEK = str.maketrans("abcdefghijklmnopqrstuvwxyz", "αβξδεφγηιϊκλμνοπθρστυωΩχψζ")
LETTERS = re.compile("[α-ωΩϊ]")
OLDER = ["en-ko", "ko-en"]
CHANGES: dict[str, Any] = {
    "tokenizer.vocab_size": 600,
    "train.max_updates": 300,
    "train.warmup_updates": 40,
    "train.validate_every": 150,
    "train.checkpoint_every": 150,
    "export.parity_sentences": 3,
    "export.precisions": "[fp32]",
    "evaluate.interval_samples": 0,
    "registry.built_in_sentences": "no_worse",
    "registry.max_slowdown": 1,
    "clean.min_language_probability": 0,  # the new language is English in another alphabet
    "clean.near_duplicates": 0,
}


def write_text(folder: Path, split: Path) -> None:
    """Write the toy text, and its English in another alphabet as a third language, by role and language."""
    sets = {"train": "train-*.parquet", "dev": "dev.parquet", "test": "test-toy.parquet"}
    for role, files in sets.items():
        text = pl.read_parquet(split / files)
        languages = {"en": text["source"].to_list(), "ko": text["target"].to_list()}
        languages["el"] = [line.lower().translate(GREEK) for line in languages["en"]]
        for language, lines in languages.items():
            (folder / f"{role}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.cpu(80)
def test_a_third_language_is_learned_and_no_older_pair_is_lost(
    run_until: Callable[..., dict[str, Artifact]], registry: Any, tmp_path: Path
) -> None:
    from flows.registry.candidate import Candidate

    toy = load_recipe("quickstart", ["corpus.toy.pairs=1500", "corpus.toy.held_out=60"])
    write_text(tmp_path, run_until(toy, "split")["split"].path)

    def recipe(pairs: list[str], **options: Any) -> Any:
        def corpus(role: str, pair: str) -> str:
            source, target = (tmp_path / f"{role}.{language}" for language in pair.split("-"))
            return f"{{name: {role}-{pair}, source: {source}, target: {target}, pairs: {pair}}}"

        sets = {f"corpus.{role}": f"[{', '.join(corpus(role, one) for one in pairs)}]" for role in ("dev", "test")}
        sets["corpus.train"] = f"[{', '.join(corpus('train', one) for one in pairs)}]"
        small = {name: value for name, value in SMALL.items() if not name.startswith("corpus.")}
        source, target = pairs[0].split("-")
        languages = f"{{source: {source}, target: {target}, pairs: [{', '.join(pairs)}]}}"
        changes = small | CHANGES | {"languages": languages, "corpus.toy": "null"} | sets | options
        return load_recipe("quickstart", [f"{name}={value}" for name, value in changes.items()])

    def registered(config: Any, made: dict[str, Artifact]) -> Any:
        parts = {name: made[name] for name in ("clean", "split", "train")}
        return registry.register(Candidate(made["export"], made["evaluate"], **parts), config)

    first = recipe(OLDER)
    older = run_until(first, "evaluate")
    assert registered(first, older).gate.promoted

    second = recipe(
        ["en-el", "el-en", *OLDER],
        **{
            "tokenizer.start_from": older["tokenizer"].path,
            "tokenizer.added_pieces.el": 100,
            "train.start_from": older["average"].path,
            "train.new_rows_first": 50,
            "train.max_updates": 800,  # 300 are enough on some processors only: rounding differs there
        },
    )
    made = run_until(second, "evaluate")
    assert made["tokenizer"].report()["added_pieces"] == {SPM_FILE: 101}
    verdict = registered(second, made).gate
    assert verdict.promoted, verdict.reason
    compared = {check.test_set: check for check in verdict.checks if check.kind == "quality"}
    assert {name for name, check in compared.items() if check.champion is not None} >= {
        f"test-{pair}" for pair in OLDER
    }

    translator = Translator.load(made["export"].path, second.search)
    english = pl.read_parquet(made["split"].path / "test-test-en-el.parquet")["source"].to_list()
    greek = [one.text for one in translator.translate(english, to="el")]
    assert sum(bool(LETTERS.search(text)) for text in greek) > 0.9 * len(greek)
    references = [line.lower().translate(GREEK) for line in english]
    matched, mixed = (corpus_chrf(texts, [references]).score for texts in (greek, [*greek[1:], greek[0]]))
    assert matched > mixed, "its translations fit their own sentences best"
