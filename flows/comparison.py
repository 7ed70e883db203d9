"""Recipes side by side: which trainings to run, and what came of them."""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pydantic import BaseModel

from flows.reports import Report
from flows.settings import Settings
from flows.start_from import resolved
from flows.summary import RunStatus, RunSummary
from nmt_core.artifacts import Artifact
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.evaluate.length_bucket import LengthBucket
from nmt_core.recipe import load_recipe

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
    dev_perplexity: float | None = None
    """Per token of the dev set, of the weights that were exported."""
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
    tokens: float | None = None
    """Of a sentence of the training text, its end mark not counted."""
    unknown: float | None = None
    """Share of the tokens of the training text that are <unk>."""
    by_length: list[LengthBucket] = []
    """Of the first test set, short sources first."""
    hours: float | None = None
    """Of training, whenever that was."""
    signatures: list[str] = []
    """sacreBLEU's, and the test set."""


class Spread(BaseModel):
    """A measure over the seeds."""

    mean: float
    deviation: float | None
    """Sample standard deviation; None of one run."""


class ComparedRecipe(BaseModel):
    """One row of the table."""

    recipe: str
    measures: dict[str, Spread]
    """By their names in `ComparedRun`; without those that no run came to."""
    runs: list[ComparedRun]

    @property
    def failed(self) -> int:
        """Runs that did not come to their end."""
        return sum(run.status != "finished" for run in self.runs)


MEASURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "parameters": ("parameters", "{:,.0f}".format),
    "updates": ("updates", "{:,.0f}".format),
    "dev_perplexity": ("dev perplexity", "{:.2f}".format),
    "dev_bleu": ("dev BLEU", "{:.2f}".format),
    "bleu": ("BLEU", "{:.2f}".format),
    "chrf": ("chrF", "{:.2f}".format),
    "hours": ("hours", "{:.3g}".format),
    "bleu_morphemes": ("BLEU ko-mecab", "{:.2f}".format),
    "bleu_no_unk": ("BLEU no UNK", "{:.2f}".format),
    "pieces": ("target pieces", "{:,.0f}".format),
    "tokens": ("tokens a sentence", "{:.1f}".format),
    "unknown": ("<unk>", "{:.2%}".format),
}
"""Columns of the table, by their names in `ComparedRun`: what each is called, and how it is written."""

_WHERE_ROWS_DIFFER = ("bleu_morphemes", "bleu_no_unk", "pieces", "tokens", "unknown")

_METRICS = {"BLEU": "bleu", "chrF": "chrf", "BLEU ko-mecab": "bleu_morphemes", "BLEU no UNK": "bleu_no_unk"}


def contenders(
    recipes: Sequence[str], overrides: Sequence[str], seeds: int, corpus_of: str = "", *, debug: bool = False
) -> list[Contender]:
    """Every recipe with the first seed, then every recipe with the second: what is broken off is even so far.

    Args:
        recipes: names or paths, each followed by its own changes if any: `quickstart+model.norm=pre`.
        overrides: changes of all of them, as `section.key=value`.
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
        config = resolved(load_recipe(recipe, [*own, *overrides], corpus_of), settings, debug=debug)
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
        found |= {"pieces": report["vocab_size"], "unknown": report["target_unknown"]}
        found["tokens"] = report["target_tokens_per_sentence"]
    if "train" in done:
        found["updates"] = done["train"].report()["updates"]
        found["hours"] = done["train"].manifest().seconds / 3_600
    if "average" in done:
        found["dev_perplexity"] = math.exp(_dev_loss(done["average"].report()))
    if "export" in done:
        report = done["export"].report()
        found["parameters"], found["dev_bleu"] = report["items_in"], report["bleu"]["fp32"]
    first = [score for score in summary.metrics if score.test_set == summary.metrics[0].test_set]
    found |= {_METRICS[score.metric]: score.score for score in first if score.metric in _METRICS}
    if first and "evaluate" in done:
        buckets = map(LengthBucket.model_validate, done["evaluate"].report()["by_length"])
        found["by_length"] = [bucket for bucket in buckets if bucket.test_set == first[0].test_set]
    found["signatures"] = [f"{score.metric} on {score.test_set}: {score.signature}" for score in first]
    return run.model_copy(update=found)


def _dev_loss(average: Report) -> float:
    """Plain loss in nats per target token, of the weights that went on."""
    return float(average["averaged_dev_loss" if average["taken"] == "averaged" else "best_single_dev_loss"])


def rows(runs: Sequence[ComparedRun]) -> list[ComparedRecipe]:
    """A row for each recipe, in the order of their first runs."""
    of: dict[str, list[ComparedRun]] = {}
    for run in runs:
        of.setdefault(run.recipe, []).append(run)
    return [ComparedRecipe(recipe=recipe, measures=_measures(own), runs=own) for recipe, own in of.items()]


def _measures(runs: Sequence[ComparedRun]) -> dict[str, Spread]:
    measures = {}
    for name in MEASURES:
        values = [value for run in runs if (value := getattr(run, name)) is not None]
        if values:
            measures[name] = _spread(values)
    return measures


def _spread(values: Sequence[float]) -> Spread:
    return Spread(mean=mean(values), deviation=stdev(values) if len(values) > 1 else None)


def main_table(table: Sequence[ComparedRecipe]) -> list[list[str]]:
    """Headings, and a row for each recipe: measures, and how many of its runs came to their end.

    What follows from the text or is only for some languages is there only if rows differ in it.
    """
    names = [name for name in MEASURES if name not in _WHERE_ROWS_DIFFER or _differ(name, table)]
    lines = [["recipe", *(MEASURES[name][0] for name in names), "runs"]]
    for row in table:
        spreads = [(row.measures.get(name), MEASURES[name][1]) for name in names]
        runs = f"{row.failed} of {len(row.runs)} failed" if row.failed else str(len(row.runs))
        lines.append([row.recipe, *(_shown(spread, written) if spread else "-" for spread, written in spreads), runs])
    return lines


def _differ(name: str, table: Sequence[ComparedRecipe]) -> bool:
    return len({row.measures[name].mean for row in table if name in row.measures}) > 1


def _shown(spread: Spread, written: Callable[[float], str]) -> str:
    mean = written(spread.mean)
    return f"{mean} ± {written(spread.deviation)}" if spread.deviation else mean


def by_length(table: Sequence[ComparedRecipe]) -> list[list[str]]:
    """BLEU by the length of the source (after Bahdanau et al. 2015, figure 2): headings, and a row for each recipe.

    Nothing if no run was evaluated. A recipe with another test set than the first has dashes.
    """
    buckets = next((run.by_length for row in table for run in row.runs if run.by_length), [])
    if not buckets:
        return []
    lines = [[f"BLEU by {buckets[0].unit} of the source", *(f"{each.shortest}-{each.longest}" for each in buckets)]]
    for row in table:
        found = [run.by_length for run in row.runs if [*map(_place, run.by_length)] == [*map(_place, buckets)]]
        spreads = [_spread([bucket.bleu for bucket in same]) for same in zip(*found, strict=True)]
        lines.append([row.recipe, *(_shown(spread, "{:.1f}".format) for spread in spreads)])
        lines[-1] += ["-"] * (len(lines[0]) - len(lines[-1]))
    return lines


def _place(bucket: LengthBucket) -> tuple[str, int, int]:
    return bucket.test_set, bucket.shortest, bucket.longest


def markdown(table: Sequence[ComparedRecipe]) -> str:
    """The tables, and which runs they are of, as Markdown."""
    lines = _markdown(main_table(table))
    if lengths := by_length(table):
        lines += ["", *_markdown(lengths)]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes(table))])


def _markdown(lines: Sequence[Sequence[str]]) -> list[str]:
    columns = len(lines[0])
    with_rule = [lines[0], ["---", *["---:"] * (columns - 1)], *lines[1:]]
    return [f"| {' | '.join(line)} |" for line in with_rule]


def notes(table: Sequence[ComparedRecipe]) -> list[str]:
    """Which runs the rows are of, what failed, and how the scores were computed."""
    runs = [run for row in table for run in row.runs]
    told = [f"{run.recipe}, seed {run.seed}: {run.run_id}" + (f": {run.error}" if run.error else "") for run in runs]
    told += dict.fromkeys(signature for run in runs for signature in run.signatures)
    told.append(
        "Perplexity is per token of the dev set: it compares rows of one tokenizer only. Hours are of training."
    )
    return told
