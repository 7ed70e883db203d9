"""Translate and score the suites of a test set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from nmt_core.config import PipelineConfig, SuiteKind
from nmt_core.evaluate.judges import judge
from nmt_core.evaluate.sentences import write_translations
from nmt_core.evaluate.significance import scores_with_intervals
from nmt_core.evaluate.suites import MadeSuite, make_suites
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.scoring import Score, SentenceStatistics
from nmt_core.search.translation import Translation
from nmt_core.stages.stage import Job
from nmt_core.translator import Translator


class SuiteReport(BaseModel):
    """Size of a suite, and what its rule costs."""

    model_config = ConfigDict(frozen=True)
    suite: str
    """Name of the suite: the test set, a plus and the kind."""
    kind: SuiteKind
    sentences: int
    """Number of sentences, or long lines, to which the rule applies."""
    total: int
    """Number of sentences, or whole long lines, in the test set."""
    chrf: float | None = None
    """chrF of the suite. None if it is not scored."""
    chrf_unchanged: float | None = None
    """chrF of the same sentences as they were in the test set. None if the rule changes nothing."""
    not_scored: str = ""
    """Reason why the suite is not scored. Empty means that it is."""


@dataclass
class SuiteScores:
    """Scores of all suites."""

    reports: list[SuiteReport] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    not_scored: dict[str, str] = field(default_factory=dict)
    """Reason why a metric of `evaluate.metrics` was left out, by its name and the suite."""
    sha256: dict[str, str] = field(default_factory=dict)
    """Hash of the text of each suite that is scored."""
    judge_problems: list[str] = field(default_factory=list)
    """Reason for each changed sentence for which the judge of `search.judge` did not choose."""

    def add(self, other: "SuiteScores") -> None:
        """Add the scores of the suites of another test set."""
        self.reports += other.reports
        self.scores += other.scores
        self.not_scored |= other.not_scored
        self.sha256 |= other.sha256
        self.judge_problems += other.judge_problems


@dataclass(frozen=True)
class Translated:
    """Test set with its translations."""

    test: TestSet
    translations: Sequence[Translation]
    numbers: Mapping[str, Sequence[float]]
    """Number that each program of `evaluate.metrics` gave to each sentence, by the name of the metric."""


def score_suites(main: Translated, translator: Translator, config: PipelineConfig, out: Path, job: Job) -> SuiteScores:
    """Make the suites of the main test set, translate those that change sentences, and score all of them.

    Args:
        main: the main test set.
        translator: translator of the exported bundle, into the target language of the test set.
        config: the recipe, of which `evaluate` and `languages` are used.
        out: folder for the translations.
        job: reporter, and whether programs may judge.
    """
    found = SuiteScores()
    for suite in make_suites(main.test, config.evaluate.suites, main.test.languages(config.languages)):
        if suite.problem:
            job.reporter.notice(f"{suite.test.name} is not scored: {suite.problem}")
            found.reports.append(_report(suite, not_scored=suite.problem))
            continue
        translated = _translated(suite, main, translator)
        if not suite.is_selection:
            found.judge_problems += [one.judge_problem for one in translated.translations if one.judge_problem]
        _score(suite, translated, config, job, found)
        found.reports.append(
            _report(suite, *_costs(suite, main, translated, main.test.target_language(config.languages.target)))
        )
        found.sha256[suite.test.name] = suite.test.sha256
        write_translations(out, suite.test, translated.translations, translated.numbers)
    return found


def _translated(suite: MadeSuite, main: Translated, translator: Translator) -> Translated:
    if not suite.is_selection:
        return Translated(suite.test, translator.translate(suite.test.sources), {})
    numbers = {name: [values[place] for place in suite.places] for name, values in main.numbers.items()}
    return Translated(suite.test, [main.translations[place] for place in suite.places], numbers)


def _score(suite: MadeSuite, translated: Translated, config: PipelineConfig, job: Job, found: SuiteScores) -> None:
    """Add the scores of a suite by all metrics."""
    test, target = suite.scored, suite.test.target_language(config.languages.target)
    hypotheses = suite.comparable([one.text for one in translated.translations])
    scores = scores_with_intervals(test.name, (hypotheses, test.references), target, config.evaluate.interval_samples)
    judged = judge(
        test,
        hypotheses,
        config.evaluate,
        target,
        allow_code=job.allow_code,
        notice=job.reporter.notice,
        known=translated.numbers,
    )
    found.scores += [suite.signed(score) for score in (*scores, *judged.scores)]
    found.not_scored |= {f"{name} of {test.name}": reason for name, reason in judged.not_scored.items()}


def _costs(
    suite: MadeSuite, main: Translated, translated: Translated, target_language: str
) -> tuple[float, float | None]:
    """Return chrF of a suite, and of its sentences as they were."""

    def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
        both = suite.comparable(hypotheses), suite.comparable(references)
        return round(SentenceStatistics("chrF", *both, target_language).score, 4)

    own = chrf([one.text for one in translated.translations], suite.test.references)
    if suite.is_selection:
        return own, None
    width = suite.config.joined if suite.config.kind == "long_lines" else 1
    places = [*chain.from_iterable(range(place, place + width) for place in suite.places)]
    texts = [main.translations[place].text for place in places]
    return own, chrf(texts, [main.test.references[place] for place in places])


def _report(
    suite: MadeSuite, chrf: float | None = None, unchanged: float | None = None, not_scored: str = ""
) -> SuiteReport:
    return SuiteReport(
        suite=suite.test.name,
        kind=suite.config.kind,
        sentences=len(suite.places),
        total=suite.total,
        chrf=chrf,
        chrf_unchanged=unchanged,
        not_scored=not_scored,
    )
