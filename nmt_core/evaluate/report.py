"""Stage `evaluate`: translate the test sets with the exported bundle, which is the one that ships, and score them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from nmt_core.config import PipelineConfig
from nmt_core.config.section import later
from nmt_core.evaluate import must_translate
from nmt_core.evaluate.by_length import by_length
from nmt_core.evaluate.further_scores import further_scores, translate_known, unknown_in_references
from nmt_core.evaluate.judges import Judged, judge
from nmt_core.evaluate.length_bucket import LengthBucket
from nmt_core.evaluate.must_translate import SentenceCheck
from nmt_core.evaluate.sentences import write_translations
from nmt_core.evaluate.significance import scores_with_intervals
from nmt_core.evaluate.suite_scores import SuiteReport, SuiteScores, Translated, score_suites
from nmt_core.evaluate.system_scores import Scored, SystemScore, compare_systems
from nmt_core.evaluate.test_sets import TestSet, main_sets, read_test_sets
from nmt_core.judges.reranking import with_its_judge
from nmt_core.scoring import Score
from nmt_core.search.translation import Translation
from nmt_core.stages.stage import Inputs, Job, StageReport
from nmt_core.translator import Translator


class Sample(BaseModel):
    """Sample sentence for people to read."""

    model_config = ConfigDict(frozen=True)
    source: str
    reference: str
    """Reference translation. Empty for sentences of `evaluate.sentences`, which have none."""
    translation: str
    pair: str = later("")
    """Pair of languages. Empty means the only pair of the recipe."""


class EvaluateReport(StageReport):
    """Report of `evaluate`: scores and samples. Its items are the sentences of all test sets."""

    scores: list[Score]
    """BLEU, chrF, additional scores (`further_scores`) and the scores of `evaluate.metrics` of each test set, the main
    test set first and suites last."""
    not_scored: dict[str, str]
    """Reason why a metric of `evaluate.metrics` was left out, by its name and the test set."""
    known_sentences: dict[str, int]
    """Number of sentences in each test set that have no <unk> on either side."""
    unknown_in_references: dict[str, float]
    """Share of the tokens in each test set's references that are <unk>."""
    samples: list[Sample]
    """Samples of the main test set, followed by the sentences of `evaluate.sentences`."""
    suites: list[SuiteReport]
    """Suites of `evaluate.suites`. Their scores are among `scores`, after the scores of the test sets."""
    systems: list[SystemScore]
    """Scores of the systems of `evaluate.systems`, compared with the model."""
    not_compared: dict[str, str]
    """Reason why a system of `evaluate.systems` was left out, by its name and the test set."""
    not_judged: int = later(0)
    """Number of sentences for which the judge of `search.judge` did not choose, so that they have the search's first
    candidate."""
    by_length: list[LengthBucket]
    """BLEU of each test set by the length of the source."""
    must_translate: list[SentenceCheck]
    """Translations of the sentences of `evaluate.must_translate`, and of the built-in ones."""
    unfinished: int
    """Number of translations that reached the length limit without an end mark."""
    seconds: float
    """Time of translation in seconds."""
    sentences_per_second: float
    """Sentences per second of translation."""
    tokens_per_second: float
    """Target tokens per second of translation."""
    tokens: int
    """Number of target tokens in all translations, without end marks."""
    threads: int
    """Number of CPU threads that translated."""
    device: str
    """Device that translated, `cpu` or `cuda`."""
    test_sets: dict[str, str]
    """sha256 of the text of each test set and suite."""


@dataclass
class _Work:
    """Count and time of what is translated."""

    translator: Translator
    notice: Callable[[str], None]
    sentences: int = 0
    tokens: int = 0
    unfinished: int = 0
    not_judged: int = 0
    seconds: float = 1e-9  # avoids a division by 0 with a coarse clock

    def translate(self, sources: Sequence[str], pair: str) -> list[Translation]:
        start = time.monotonic()
        translations = self.translator.translate(sources, to=pair)
        self.seconds += time.monotonic() - start
        self.sentences += len(sources)
        self.tokens += sum(translation.tokens for translation in translations)
        self.unfinished += sum(translation.status == "unfinished" for translation in translations)
        self.count_not_judged([one.judge_problem for one in translations if one.judge_problem])
        return translations

    def count_not_judged(self, problems: Sequence[str]) -> None:
        """Count the sentences for which the judge of the search did not choose, and report the first reason."""
        if problems and not self.not_judged:
            self.notice(f"sentences keep the first candidate of the search, because {problems[0]}")
        self.not_judged += len(problems)


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> EvaluateReport:
    """Translate and score the test sets.

    Write `<test set>.hypotheses.txt` and `<test set>.sentences.parquet` for each test set and suite.

    Raises:
        ModelError: the bundle is damaged.
    """
    translator = _opened(config, inputs, job)
    tests = read_test_sets(inputs["split"].path)
    scores, samples, buckets = list[Score](), list[Sample](), list[LengthBucket]()
    known_of, unknown_of, not_scored = dict[str, int](), dict[str, float](), dict[str, str]()
    work, suites, scored = _Work(translator, job.reporter.notice), SuiteScores(), list[Scored]()
    for number, test in enumerate(tests):
        job.reporter.progress(number, len(tests), f"translating {test.name}")
        translations = work.translate(test.sources, test.pair)
        own = translator.into(test.pair) if test.pair else translator
        hypotheses = [translation.text for translation in translations]
        judged = _judged(test, hypotheses, config, job)
        write_translations(out, test, translations, judged.numbers)
        scored.append(Scored(test, hypotheses, judged.numbers))
        texts, target = (hypotheses, test.references), test.target_language(config.languages.target)
        scores += scores_with_intervals(test.name, texts, target, config.evaluate.interval_samples)
        known = translate_known(test, hypotheses, own)
        known_of[test.name], unknown_of[test.name] = len(known), unknown_in_references(test, own)
        scores += further_scores(test, hypotheses, known, target, job.reporter.log) + judged.scores
        not_scored |= {f"{name} of {test.name}": reason for name, reason in judged.not_scored.items()}
        buckets += by_length(test, hypotheses, test.languages(config.languages), config.evaluate.length_bucket)
        if test in main_sets(tests):
            samples += _spread(test, hypotheses, config.evaluate.samples)
            suites.add(score_suites(Translated(test, translations, judged.numbers), own, config, out, job))
    work.count_not_judged(suites.judge_problems)
    scores, not_scored = scores + suites.scores, not_scored | suites.not_scored
    systems = compare_systems(scored, config, out, job)
    job.reporter.progress(len(tests), len(tests), ", ".join(f"{s.test_set} {s.metric} {s.score:.1f}" for s in scores))
    return EvaluateReport(
        items_in=work.sentences,
        items_out=work.sentences,
        unit="sentences",
        scores=scores,
        not_scored=not_scored,
        known_sentences=known_of,
        unknown_in_references=unknown_of,
        samples=samples + _further(config, translator),
        suites=suites.reports,
        systems=systems.scores,
        not_compared=systems.left_out,
        not_judged=work.not_judged,
        by_length=buckets,
        must_translate=check_sentences(config, translator),
        unfinished=work.unfinished,
        seconds=round(work.seconds, 3),
        sentences_per_second=round(work.sentences / work.seconds, 1),
        tokens_per_second=round(work.tokens / work.seconds, 1),
        tokens=work.tokens,
        threads=job.resources.threads,
        device=translator.device,
        test_sets={test.name: test.sha256 for test in tests} | suites.sha256,
    )


def _opened(config: PipelineConfig, inputs: Inputs, job: Job) -> Translator:
    """Return the translator of the exported bundle, with the judge that chooses among candidates, if there is one."""
    translator = Translator.load(inputs["export"].path, config.search, job.resources.threads)
    return with_its_judge(translator, allow_code=job.allow_code)


def _judged(test: TestSet, hypotheses: Sequence[str], config: PipelineConfig, job: Job) -> Judged:
    target, notice = test.target_language(config.languages.target), job.reporter.notice
    return judge(test, hypotheses, config.evaluate, target, allow_code=job.allow_code, notice=notice)


def check_sentences(config: PipelineConfig, translator: Translator) -> list[SentenceCheck]:
    """Translate the must-translate sentences with a model, and check the translations."""
    expected = [sentence for _, sentence in must_translate.sentences(config.evaluate, config.languages.pairs)]
    sources, pairs = [one.source for one in expected], [one.pair for one in expected]
    translations = [one.text for one in translator.translate(sources, to=pairs if any(pairs) else ())]
    return must_translate.check(config.evaluate, translations, config.languages)


def _further(config: PipelineConfig, translator: Translator) -> list[Sample]:
    sources = config.evaluate.sentences
    main = config.languages.pairs[0] if config.languages.pairs else ""
    translations = translator.translate(sources, to=main)
    return [
        Sample(source=source, reference="", translation=translation.text, pair=main)
        for source, translation in zip(sources, translations, strict=True)
    ]


def _spread(test: TestSet, hypotheses: Sequence[str], count: int) -> list[Sample]:
    """Return evenly spaced sentences as samples: a test set often begins with similar sentences."""
    count = min(count, len(hypotheses))
    places = [number * len(hypotheses) // count for number in range(count)]
    return [
        Sample(
            source=test.sources[place],
            reference=test.references[place],
            translation=hypotheses[place],
            pair=test.pair,
        )
        for place in places
    ]
