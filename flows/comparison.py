"""Recipes side by side: which trainings to run, and what came of them."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from pydantic import BaseModel

from flows.reports import Report
from flows.settings import Settings
from flows.start_from import resolved
from flows.summary import RunStatus, RunSummary
from nmt_core.artifacts import Artifact
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
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
}
"""Columns of the table, by their names in `ComparedRun`: what each is called, and how it is written."""


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
        recipe, *own = [written] if Path(written).is_file() else _CHANGE.split(written)
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
    found: dict[str, float | list[str]] = {}
    if "train" in done:
        found["updates"] = done["train"].report()["updates"]
        found["hours"] = done["train"].manifest().seconds / 3_600
    if "average" in done:
        found["dev_perplexity"] = math.exp(_dev_loss(done["average"].report()))
    if "export" in done:
        report = done["export"].report()
        found["parameters"], found["dev_bleu"] = report["items_in"], report["bleu"]["fp32"]
    first = [score for score in summary.metrics if score.test_set == summary.metrics[0].test_set]
    found |= {score.metric.lower(): score.score for score in first if score.metric in ("BLEU", "chrF")}
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
            measures[name] = Spread(mean=mean(values), deviation=stdev(values) if len(values) > 1 else None)
    return measures


def cells(row: ComparedRecipe) -> list[str]:
    """A row as it is shown: the recipe, each measure, and how many of its runs came to their end."""
    shown = [row.recipe]
    for name, (_, written) in MEASURES.items():
        spread = row.measures.get(name)
        text = written(spread.mean) if spread else "-"
        shown.append(f"{text} ± {written(spread.deviation)}" if spread and spread.deviation else text)
    return [*shown, f"{row.failed} of {len(row.runs)} failed" if row.failed else str(len(row.runs))]


def headings() -> list[str]:
    """What stands above `cells`."""
    return ["recipe", *(heading for heading, _ in MEASURES.values()), "runs"]


def markdown(table: Sequence[ComparedRecipe]) -> str:
    """The table, and which runs it is of, as Markdown."""
    lines = [headings(), ["---", *["---:"] * len(MEASURES), "---:"], *(cells(row) for row in table)]
    rows_of_text = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([*rows_of_text, "", *(f"- {note}" for note in notes(table))])


def notes(table: Sequence[ComparedRecipe]) -> list[str]:
    """Which runs the rows are of, what failed, and how the scores were computed."""
    runs = [run for row in table for run in row.runs]
    told = [f"{run.recipe}, seed {run.seed}: {run.run_id}" + (f": {run.error}" if run.error else "") for run in runs]
    told += dict.fromkeys(signature for run in runs for signature in run.signatures)
    told.append(
        "Perplexity is per token of the dev set: it compares rows of one tokenizer only. Hours are of training."
    )
    return told
