"""Runs of a comparison: the trainings to run, and their results."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from flows.comparison.pareto import Point, measure_points
from flows.display.reports import Report
from flows.runs.start_from import resolved
from flows.runs.summary import RunStatus, RunSummary
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.config.budget import SECONDS_PER_HOUR
from nmt_core.errors import ConfigError
from nmt_core.evaluate.length_bucket import LengthBucket
from nmt_core.recipes.recipe import load_recipe
from nmt_core.store.artifacts import Artifact

_CHANGE = re.compile(r"\+(?=[a-z_]+\.[a-z_0-9.]+=)")


@dataclass(frozen=True)
class Contender:
    """One training of a comparison."""

    label: str
    """Name of the recipe with its own changes."""
    config: PipelineConfig


class ComparedRun(BaseModel):
    """Result of one training. A measure is None if the run did not get that far."""

    recipe: str
    """Name of the recipe with its own changes."""
    seed: int
    run_id: str
    status: RunStatus
    error: str = ""
    parameters: int | None = None
    """Number of parameters. Tied ones count once."""
    updates: int | None = None
    trained_tokens: int | None = None
    """Number of target tokens in all updates of training, repetitions included."""
    weights: str = ""
    """Exported weights: one checkpoint, or the average of several."""
    dev_perplexity: float | None = None
    """Perplexity per token of the exported weights on the dev set."""
    averaged_dev_perplexity: float | None = None
    """Perplexity per token of the average on the dev set, even if the average was not used."""
    best_single_dev_perplexity: float | None = None
    """Perplexity per token of the best single checkpoint on the dev set."""
    dev_bleu: float | None = None
    """BLEU of the exported fp32 model on the dev sentences of the stage `export`."""
    bleu: float | None = None
    """BLEU on the first test set."""
    chrf: float | None = None
    bleu_morphemes: float | None = None
    """BLEU over Korean morphemes on the first test set."""
    bleu_no_unk: float | None = None
    """BLEU on the sentences of the first test set whose words are all in the vocabulary."""
    pieces: int | None = None
    """Size of the target vocabulary."""
    tokens_per_sentence: float | None = None
    """Mean number of target tokens per training sentence, without end marks."""
    unknown: float | None = None
    """Share of <unk> among the tokens of the references of the first test set."""
    by_length: list[LengthBucket] = []
    """BLEU by source length on the first test set, short sources first."""
    hours: float | None = None
    """Hours of training, over all its attempts."""
    points: list[Point] = []
    """Quality, speed and size by precision and beam. Empty unless they were requested."""
    signatures: list[str] = []
    """Metric, test set and sacreBLEU signature of each score."""


_MOST_NATS = 700.0  # the exponential of more overflows
_METRICS = {"BLEU": "bleu", "chrF": "chrf", "BLEU ko-mecab": "bleu_morphemes", "BLEU no UNK": "bleu_no_unk"}


def contenders(
    recipes: Sequence[str], overrides: Sequence[str], seeds: int, corpus_of: str | None = None, *, debug: bool = False
) -> list[Contender]:
    """Return the trainings: every recipe with the first seed, then every recipe with the second, and so forth.

    If the comparison is interrupted, all recipes have about the same number of runs.

    Args:
        recipes: Names or paths, each with its own changes if any: `quickstart+model.norm=pre`.
        overrides: Changes of all recipes, as `section.key=value`. A recipe's own changes take precedence.
        seeds: Number of trainings of each recipe.
        corpus_of: Recipe whose text and tokens all recipes use. None means that each uses its own.
        debug: Passed to `Settings.prepare`.

    Raises:
        ConfigError: A recipe or a change is wrong, or two recipes are the same.
    """
    settings = Settings.load()
    configs: dict[str, PipelineConfig] = {}
    for written in recipes:
        recipe, *own = [written] if _is_file(written) else _CHANGE.split(written)
        config = resolved(load_recipe(recipe, [*overrides, *own], corpus_of), settings, debug=debug)
        label = "+".join([config.name, *own])
        if label in configs:
            raise ConfigError(f"recipe {label} is listed twice: give recipes with different names or changes")
        configs[label] = config
    return [
        Contender(label, _with_seed(config, config.train.seed + more))
        for more in range(seeds)
        for label, config in configs.items()
    ]


def _is_file(written: str) -> bool:
    with suppress(OSError):  # many changes make a name that is too long for a file
        return Path(written).is_file()
    return False


def _with_seed(config: PipelineConfig, seed: int) -> PipelineConfig:
    return config.model_copy(update={"train": config.train.model_copy(update={"seed": seed})})


def measured(contender: Contender, summary: RunSummary) -> ComparedRun:
    """Return the measures from a run's summary and from the artifacts that it names."""
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
        found["hours"] = report["seconds"] / SECONDS_PER_HOUR  # the manifest has only the time of the last attempt
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


def with_points(run: ComparedRun, contender: Contender, summary: RunSummary) -> ComparedRun:
    """Return a run with quality, speed and size of its model, measured now."""
    done = {row.name: Artifact(row.name, row.fingerprint, Path(row.artifact)) for row in summary.stages if row.artifact}
    points = list(measure_points(contender.label, contender.config, done["export"], done["split"]))
    return run.model_copy(update={"points": points})


def _perplexity(loss: float | None) -> float | None:
    """Return the perplexity for a loss in nats, or None if there is no finite loss."""
    return None if loss is None else math.exp(min(loss, _MOST_NATS))


def _of_average(report: Report) -> dict[str, Any]:
    """Return the name of the exported weights, and the dev perplexities of the average and of the best checkpoint."""
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
