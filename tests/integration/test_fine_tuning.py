"""A registered model is trained further on other text, through the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

CHAMPION = "models:/quickstart@champion"
OTHER_TEXT = [
    *("--set", f"train.start_from={CHAMPION}", "--set", f"tokenizer.start_from={CHAMPION}"),
    *("--set", "corpus.toy.seed=2", "--set", "registry.model_name=tuned"),
]

Continued = tuple[Any, dict[str, Any]]


@pytest.fixture(scope="module")
def tuned(continued: Continued) -> dict[str, Any]:
    summary: dict[str, Any] = continued[0].run(*OTHER_TEXT)
    return summary


def artifact(summary: dict[str, Any], stage: str) -> Path:
    return Path(next(each["artifact"] for each in summary["stages"] if each["name"] == stage))


def first_loss(summary: dict[str, Any]) -> float:
    lines = (artifact(summary, "train") / "metrics.jsonl").read_text().splitlines()
    return float(next(point["train_loss"] for point in map(json.loads, lines) if "train_loss" in point))


@pytest.mark.slow
def test_it_starts_from_the_weights_and_the_vocabulary_of_the_champion(
    continued: Continued, tuned: dict[str, Any]
) -> None:
    nmt, parent = continued
    weights, vocabulary = artifact(parent, "average"), artifact(parent, "tokenizer")
    assert tuned["config"]["train"]["start_from"] == str(weights)
    assert (artifact(tuned, "tokenizer") / "spm.model").read_bytes() == (vocabulary / "spm.model").read_bytes()
    assert artifact(tuned, "split") != artifact(parent, "split")
    assert first_loss(tuned) < first_loss(parent)
    started_from = f"average/{weights.name[:12]}"
    assert started_from in nmt("artifacts", "show", artifact(tuned, "train").name).stdout
    where = "where name = 'tuned' and version = 1"
    tags = dict(nmt.select("mlflow.db", f"select key, value from model_version_tags {where}"))
    assert tags["nmt.started_from"] == started_from
    assert (tags["nmt.average"], tags["nmt.tokenizer"]) == (
        artifact(tuned, "average").name,
        artifact(tuned, "tokenizer").name,
    )
    of_run = f"select value from tags where run_uuid = '{tuned['mlflow_run_id']}' and key = 'nmt.started_from'"
    assert nmt.select("mlflow.db", of_run) == [(started_from,)]
    ((card,),) = nmt.select("mlflow.db", f"select description from model_versions {where}")
    assert f"Its training started from {started_from}" in card


@pytest.mark.slow
def test_the_same_command_would_reuse_it(continued: Continued, tuned: dict[str, Any], recipe: list[str]) -> None:
    text = continued[0]("plan", *recipe, *OTHER_TEXT).stdout
    assert text.count(" reuse ") == len(tuned["stages"]) - 1, "all but register, which a plan does not foresee"


@pytest.mark.slow  # `tests/unit/train/test_start` has the same refusal without the command line
@pytest.mark.cpu(12)
def test_another_vocabulary_fails_before_any_process_starts(continued: Continued) -> None:
    nmt, _ = continued
    learnt = [*OTHER_TEXT[:2], *OTHER_TEXT[4:], "--set", "tokenizer.vocab_size=701"]
    summary = nmt.run(*learnt, "--until", "train", code=1)
    assert "set tokenizer.start_from to the vocabulary of the model" in summary["error"]
    partial = nmt.home / "artifacts" / "train" / f"{summary['stages'][-1]['fingerprint']}.partial"
    assert [path.name for path in partial.iterdir()] == ["identity.json"]


def test_weights_that_are_gone_are_told_before_anything_runs(continued: Continued, recipe: list[str]) -> None:
    nmt, parent = continued
    weights = artifact(parent, "average")
    hidden = weights.rename(nmt.home / "hidden")
    try:
        done = nmt("plan", *recipe, *OTHER_TEXT, code=1)
    finally:
        hidden.rename(weights)
    assert f"version 1 is average/{weights.name}, which is no longer in" in done.stderr
    assert "Traceback" not in done.stderr
