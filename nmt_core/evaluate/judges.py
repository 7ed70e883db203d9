"""Judge translations by the metrics of a recipe: metrics of sacreBLEU, and programs.

A metric of `evaluate.metrics` that cannot be computed is left out with its reason. Every other score is computed all
the same. The gate compares by one of all metrics, `registry.metric`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import cast

from nmt_core.config import EvaluateConfig, Metric, MetricName
from nmt_core.errors import ArtifactError, ConfigError
from nmt_core.evaluate.sentences import read_sentences
from nmt_core.evaluate.significance import with_interval
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.judges.files import contents_of
from nmt_core.judges.lines import ProgramError
from nmt_core.judges.programs import ProgramStatistics, signature_of, statistics_of
from nmt_core.scoring import Score, SentenceStatistics, Statistics
from nmt_core.store.artifacts import Artifact


@dataclass
class Judged:
    """Scores of one test set by all metrics of `evaluate.metrics`."""

    scores: list[Score] = field(default_factory=list)
    statistics: list[Statistics] = field(default_factory=list)
    """Statistics of each score, in the same order."""
    numbers: dict[str, list[float]] = field(default_factory=dict)
    """Number that each program gave to each sentence, times its factor, by the name of the metric."""
    not_scored: dict[str, str] = field(default_factory=dict)
    """Reason why a metric was left out, by its name."""


def judge(
    test: TestSet,
    hypotheses: Sequence[str],
    config: EvaluateConfig,
    target_language: str,
    *,
    allow_code: bool,
    notice: Callable[[str], None],
    known: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> Judged:
    """Score the translations of one test set by all metrics of `evaluate.metrics`.

    Args:
        test: test set.
        hypotheses: its translations.
        config: metrics, and the number of resamples for intervals.
        target_language: ISO 639 code.
        allow_code: False if recipes may not name programs (NMT_ALLOW_CODE).
        notice: shows the reason to the user if a metric is left out.
        known: numbers that programs have already given to these translations, by the name of the metric.
    """
    judged = Judged()
    for metric in config.metrics:
        try:
            if numbers := known.get(metric.name, ()):
                found: Statistics = ProgramStatistics(metric, numbers)
            else:
                texts = test.sources, hypotheses, test.references
                found = statistics_of(metric, *texts, target_language, allow_code=allow_code)
        except (ConfigError, ProgramError) as error:
            judged.not_scored[metric.name] = str(error)
            notice(f"{metric.name} of {test.name} is left out: {error}")
            continue
        if isinstance(found, ProgramStatistics):
            judged.numbers[metric.name] = found.numbers
        judged.statistics.append(found)
        judged.scores.append(with_interval(test.name, found, config.interval_samples))
    return judged


class GateJudge:
    """Metric by which the gate compares translations, `registry.metric`.

    Args:
        name: BLEU, chrF, chrF++, or the name of a metric of `evaluate.metrics`.
        config: the metrics.
        target_language: ISO 639 code of the target language of test sets that name no pair of languages.
        allow_code: False if recipes may not name programs (NMT_ALLOW_CODE).
    """

    def __init__(self, name: str, config: EvaluateConfig, target_language: str, *, allow_code: bool) -> None:
        self.name = name
        self._metric = next((metric for metric in config.metrics if metric.name == name), None)
        self._target_language = target_language
        self._allow_code = allow_code

    def statistics(self, test: TestSet, hypotheses: Sequence[str], evaluated: Artifact | None = None) -> Statistics:
        """Return the statistics of the translations of a test set.

        Args:
            test: test set.
            hypotheses: its translations.
            evaluated: artifact of `evaluate` of the same model. A program does not run again if the artifact has its
                numbers for the same text and translations, by the same program and files.

        Raises:
            ConfigError: the vocabulary of spBLEU is missing.
            ProgramError: the program fails, or is not allowed.
        """
        target = test.target_language(self._target_language)
        if self._metric is None:
            return SentenceStatistics(cast(MetricName, self.name), hypotheses, test.references, target)
        if evaluated and self._metric.command and (numbers := _stored(self._metric, test, hypotheses, evaluated)):
            return ProgramStatistics(self._metric, numbers)
        texts = test.sources, hypotheses, test.references
        return statistics_of(self._metric, *texts, target, allow_code=self._allow_code)


def _stored(metric: Metric, test: TestSet, hypotheses: Sequence[str], evaluated: Artifact) -> list[float] | None:
    """Return the numbers that a program gave when the model was evaluated, or None if it judged anything else."""
    signatures = {
        score["signature"]
        for score in evaluated.report().get("scores", [])
        if (score["test_set"], score["metric"]) == (test.name, metric.name)
    }
    if signatures != {signature_of(metric)} or _files_then(metric, evaluated) != contents_of(metric):
        return None
    rows, column = read_sentences(evaluated.path, test.name), f"metric:{metric.name}"
    if rows is None or column not in rows.columns:
        return None
    text = [rows[name].to_list() for name in ("source", "reference", "hypothesis")]
    is_same = text == [test.sources, test.references, list(hypotheses)]
    return list(rows[column]) if is_same else None


def _files_then(metric: Metric, evaluated: Artifact) -> dict[str, str] | None:
    """Return the hashes of the files of a metric when a model was evaluated, or None if they are not known."""
    try:
        found: dict[str, str] = evaluated.manifest().identity["config"].get("metrics", {}).get(metric.name, {})
    except ArtifactError:
        return None
    return found
