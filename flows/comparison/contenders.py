"""Recipes side by side: which trainings to run, and what came of them."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from flows.display.reports import Report
from flows.runs.start_from import resolved
from flows.runs.summary import RunStatus, RunSummary
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.evaluate.length_bucket import LengthBucket
from nmt_core.recipes.recipe import load_recipe
from nmt_core.store.artifacts import Artifact

_CHANGE = re.compile(r"\+(?=[a-z_]+\.[a-z_0-9.]+=)")


@dataclass(frozen=True)
class Contender:
    """One training of a comparison."""

    label: str
    """Name of the recipe, and its own changes."""
    config: PipelineConfig


class ComparedRun(BaseModel):
    """What came of one training; None is what it did not come to."""

    recipe: str
    """Name of the recipe, and its own changes."""
    seed: int
    run_id: str
    status: RunStatus
    error: str = ""
    parameters: int | None = None
    """Tied ones counted once."""
    updates: int | None = None
    trained_tokens: int | None = None
    """Of the target side, each time that training read them counted."""
    weights: str = ""
    """Which were exported: of one checkpoint, or the average of some."""
    dev_perplexity: float | None = None
    """Per token of the dev set, of the weights that were exported, as the next two."""
    averaged_dev_perplexity: float | None = None
    """Of the average that was tried, whether it went on or not."""
    best_single_dev_perplexity: float | None = None
    """Of the best checkpoint alone."""
    dev_bleu: float | None = None
    """Of the export's dev sentences, in fp32."""
    bleu: float | None = None
    """Of the first test set, as the next."""
    chrf: float | None = None
    bleu_morphemes: float | None = None
    """BLEU over Korean morphemes."""
    bleu_no_unk: float | None = None
    """BLEU of the sentences of which the vocabulary knows every word."""
    pieces: int | None = None
    """Of the target's vocabulary, as the next two."""
    tokens_per_sentence: float | None = None
    """Of the training text, end marks not counted."""
    unknown: float | None = None
    """Share of the tokens of the first test set's references that are <unk>."""
    by_length: list[LengthBucket] = []
    """Of the first test set, short sources first."""
    hours: float | None = None
    """Of training, over all its attempts, whenever they were."""
    signatures: list[str] = []
    """sacreBLEU's, and the test set."""


_MOST_NATS = 700.0  # of more, the exponential is no number
_METRICS = {"BLEU": "bleu", "chrF": "chrf", "BLEU ko-mecab": "bleu_morphemes", "BLEU no UNK": "bleu_no_unk"}


def contenders(
    recipes: Sequence[str], overrides: Sequence[str], seeds: int, corpus_of: str = "", *, debug: bool = False
) -> list[Contender]:
    """Every recipe with the first seed, then every recipe with the second: what is broken off is even so far.

    Args:
        recipes: names or paths, each followed by its own changes if any: `quickstart+model.norm=pre`.
        overrides: changes of all of them, as `section.key=value`; a recipe's own go before them.
        seeds: trainings of each recipe.
        corpus_of: recipe whose text and tokens all take over; empty: each has its own.
        debug: as of `Settings.prepare`.

    Raises:
        ConfigError: a recipe or a change is wrong, or two recipes are the same.
    """
    settings = Settings.load()
    configs: dict[str, PipelineConfig] = {}
    for written in recipes:
        recipe, *own = [written] if _is_file(written) else _CHANGE.split(written)
        config = resolved(load_recipe(recipe, [*overrides, *own], corpus_of), settings, debug=debug)
        label = "+".join([config.name, *own])
        if label in configs:
            raise ConfigError(f"{label} is there twice: give recipes with names of their own, or other changes")
        configs[label] = config
    return [
        Contender(label, _with_seed(config, config.train.seed + more))
        for more in range(seeds)
        for label, config in configs.items()
    ]


def _is_file(written: str) -> bool:
    with suppress(OSError):  # many changes make a name that no file can have
        return Path(written).is_file()
    return False


def _with_seed(config: PipelineConfig, seed: int) -> PipelineConfig:
    return config.model_copy(update={"train": config.train.model_copy(update={"seed": seed})})


def measured(contender: Contender, summary: RunSummary) -> ComparedRun:
    """What a run's summary and the artifacts that it names say."""
    done = {row.name: Artifact(row.name, row.fingerprint, Path(row.artifact)) for row in summary.stages if row.artifact}
    run = ComparedRun(
        recipe=contender.label,
        seed=contender.config.train.seed,
        run_id=summary.run_id,
        status=summary.status,
        error=summary.error,
    )
    found: dict[str, Any] = {}
    if "encode" in done:
        report = done["encode"].report()
        found |= {"pieces": report["vocab_size"], "tokens_per_sentence": report["target_tokens_per_sentence"]}
    if "train" in done:
        report = done["train"].report()
        found |= {"updates": report["updates"], "trained_tokens": report["tokens"]}
        found["hours"] = report["seconds"] / 3_600  # the manifest's are of the last attempt alone
    if "average" in done:
        found |= _of_average(done["average"].report())
    if "export" in done:
        report = done["export"].report()
        found["parameters"], found["dev_bleu"] = report["items_in"], report["bleu"]["fp32"]
    first = [score for score in summary.metrics if score.test_set == summary.metrics[0].test_set]
    found |= {_METRICS[score.metric]: score.score for score in first if score.metric in _METRICS}
    if first and "evaluate" in done:
        report = done["evaluate"].report()
        buckets = map(LengthBucket.model_validate, report["by_length"])
        found["by_length"] = [bucket for bucket in buckets if bucket.test_set == first[0].test_set]
        found["unknown"] = report["unknown_in_references"][first[0].test_set]
    found["signatures"] = [f"{score.metric} on {score.test_set}: {score.signature}" for score in first]
    return run.model_copy(update=found)


def _perplexity(loss: float | None) -> float | None:
    """Of a loss in nats; None if that was no finite number."""
    return None if loss is None else math.exp(min(loss, _MOST_NATS))


def _of_average(report: Report) -> dict[str, Any]:
    """Which weights went on, and how well they and the others predict the dev set."""
    averaged, single = _perplexity(report["averaged_dev_loss"]), _perplexity(report["best_single_dev_loss"])
    is_average = report["taken"] == "averaged"
    count = len(report["checkpoints"])
    if not is_average:
        weights = "best alone"
    elif report["strategy"] == "ema":
        weights = "moving average"
    else:
        weights = f"average of {count}" if count > 1 else f"{report['strategy']} alone"
    return {
        "weights": weights,
        "dev_perplexity": averaged if is_average else single,
        "averaged_dev_perplexity": averaged,
        "best_single_dev_perplexity": single,
    }
