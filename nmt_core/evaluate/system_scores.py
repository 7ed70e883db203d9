"""Score other systems on the same test sets, by the same metrics, and compare them with the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars
from pydantic import BaseModel, ConfigDict

from nmt_core.config import PipelineConfig, System
from nmt_core.errors import ConfigError, ModelError
from nmt_core.evaluate.judges import Judged, judge
from nmt_core.evaluate.significance import compare
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.judges.lines import ProgramError
from nmt_core.judges.systems import SystemTranslator
from nmt_core.scoring import Statistics, statistics
from nmt_core.stages.stage import Job

_SUFFIX = ".systems.parquet"
_PREFIX = "system:"
_LEAST_SAMPLES = 100
"""Fewest resamples with which a difference of 95% confidence can be significant, with a margin."""


class SystemScore(BaseModel):
    """Score of another system on one test set by one metric, compared with the model."""

    model_config = ConfigDict(frozen=True)
    system: str
    test_set: str
    metric: str
    score: float
    """Score of the other system."""
    own: float
    """Score of the model."""
    difference: float
    """Score of the model minus score of the other system."""
    low: float | None = None
    """Lower end of the 95% confidence interval of the difference, by paired bootstrap resampling (Koehn 2004). None
    means that `evaluate.interval_samples` is too small for one."""
    high: float | None = None
    """Upper end of the 95% confidence interval of the difference."""
    p_value: float | None = None
    """Two-sided p-value of the difference."""
    verdict: str = ""
    """`better` or `worse` if the model is significantly so, `neither` if it is not. Empty means that this is not
    known."""


@dataclass
class SystemScores:
    """Scores of all other systems."""

    scores: list[SystemScore] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Reason why a system, or a metric of it, was left out, by its name and the test set."""


@dataclass(frozen=True)
class Scored:
    """Test set with the model's translations."""

    test: TestSet
    hypotheses: Sequence[str]
    numbers: Mapping[str, Sequence[float]]
    """Number that each program of `evaluate.metrics` gave to each sentence, by the name of the metric."""


def compare_systems(tests: Sequence[Scored], config: PipelineConfig, out: Path, job: Job) -> SystemScores:
    """Translate the test sets with all systems of `evaluate.systems`, and compare them with the model.

    Write `<test set>.systems.parquet`: source, reference, hypothesis, and the translations of each system. A system
    that fails is left out with its reason.

    Args:
        tests: test sets with the model's translations.
        config: the recipe, of which `evaluate` and `languages` are used.
        out: folder for the translations.
        job: reporter, threads, and the cache of translations.
    """
    found = SystemScores()
    if not config.evaluate.systems:
        return found
    for one in tests:
        texts: dict[str, list[str]] = {}
        for system in config.evaluate.systems:
            job.reporter.log(f"{system.name} translates {one.test.name}")
            try:
                texts[system.name] = _translator(system, one.test, config, job).translate(
                    one.test.name, one.test.sources
                )
            except (ProgramError, ConfigError, ModelError) as error:
                found.left_out[f"{system.name} on {one.test.name}"] = str(error)
                job.reporter.notice(f"{system.name} is left out on {one.test.name}: {error}")
        own = _statistics(one.test, one.hypotheses, config, job, "", found, one.numbers) if texts else []
        for name, hypotheses in texts.items():
            theirs = _statistics(one.test, hypotheses, config, job, name, found, {})
            found.scores += _compared(name, one.test.name, own, theirs, config.evaluate.interval_samples)
        _write(out, one, texts)
    return found


def read_systems(folder: Path, test_set: str) -> polars.DataFrame | None:
    """Return the source, reference and hypothesis of each sentence, and a column for each system by its name.

    Return None if no other system has translated the test set.
    """
    file = folder / f"{test_set}{_SUFFIX}"
    if not file.is_file():
        return None
    rows = polars.read_parquet(file, glob=False)
    return rows.rename({name: name.removeprefix(_PREFIX) for name in rows.columns if name.startswith(_PREFIX)})


def _translator(system: System, test: TestSet, config: PipelineConfig, job: Job) -> SystemTranslator:
    cache = Path(job.resources.cache) if job.resources.cache else None
    threads = job.resources.threads
    return SystemTranslator(system, test.languages(config.languages), cache, threads=threads, allow_code=job.allow_code)


def _statistics(
    test: TestSet,
    hypotheses: Sequence[str],
    config: PipelineConfig,
    job: Job,
    name: str,
    found: SystemScores,
    known: Mapping[str, Sequence[float]],
) -> list[Statistics]:
    """Return the statistics of translations by all metrics, and record the metrics of a named system that fail."""
    target = test.target_language(config.languages.target)
    judged: Judged = judge(
        test,
        hypotheses,
        config.evaluate.model_copy(update={"interval_samples": 0}),
        target,
        allow_code=job.allow_code,
        notice=job.reporter.log,
        known=known,
    )
    if name:
        found.left_out |= {f"{name} on {test.name}, {metric}": why for metric, why in judged.not_scored.items()}
    return [*statistics(test.name, hypotheses, test.references, target), *judged.statistics]


def _compared(
    name: str, test_set: str, own: Sequence[Statistics], theirs: Sequence[Statistics], samples: int
) -> list[SystemScore]:
    by_metric = {one.metric: one for one in own}
    scores = []
    for other in theirs:
        if not (ours := by_metric.get(other.metric)):
            continue
        score = SystemScore(
            system=name,
            test_set=test_set,
            metric=other.metric,
            score=round(other.score, 4),
            own=round(ours.score, 4),
            difference=round(ours.score - other.score, 4),
        )
        if samples >= _LEAST_SAMPLES:
            result = compare(other, ours, samples)
            verdict = "better" if result.is_better else "worse" if result.is_worse else "neither"
            ends = {"low": result.low, "high": result.high, "p_value": round(result.p_value, 6)}
            score = score.model_copy(update=ends | {"verdict": verdict})
        scores.append(score)
    return scores


def _write(out: Path, one: Scored, texts: Mapping[str, Sequence[str]]) -> None:
    if texts:
        rows = {"source": one.test.sources, "reference": one.test.references, "hypothesis": list(one.hypotheses)}
        rows |= {f"{_PREFIX}{name}": list(lines) for name, lines in texts.items()}
        polars.DataFrame(rows).write_parquet(out / f"{one.test.name}{_SUFFIX}")
