"""Stage `evaluate`: translate the test sets with the exported bundle, and score them. What is scored is what ships."""

import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from nmt_core.config import PipelineConfig
from nmt_core.evaluate import must_translate
from nmt_core.evaluate.by_length import by_length
from nmt_core.evaluate.further_scores import further_scores, translate_known, unknown_in_references
from nmt_core.evaluate.length_bucket import LengthBucket
from nmt_core.evaluate.must_translate import SentenceCheck
from nmt_core.evaluate.sentences import write_sentences
from nmt_core.evaluate.significance import scores_with_intervals
from nmt_core.evaluate.test_sets import TestSet, hypotheses_file, read_test_sets
from nmt_core.scoring import Score
from nmt_core.stages.stage import Inputs, Job, StageReport
from nmt_core.translator import Translator


class Sample(BaseModel):
    """One sentence for people to look at."""

    model_config = ConfigDict(frozen=True)
    source: str
    reference: str
    """Empty for a sentence of `evaluate.sentences`, which has none."""
    translation: str


class EvaluateReport(StageReport):
    """Scores and samples; items are the sentences of all test sets."""

    scores: list[Score]
    """BLEU and chrF of each test set, the main test set first; behind those of each, what `further_scores` adds."""
    known_sentences: dict[str, int]
    """Sentences of each test set that hold nothing that is <unk> to the vocabulary, on either side."""
    unknown_in_references: dict[str, float]
    """Share of the target tokens of each test set's references that are <unk> to the vocabulary."""
    samples: list[Sample]
    by_length: list[LengthBucket]
    """BLEU of each test set by the length of the source."""
    must_translate: list[SentenceCheck]
    """The sentences of `evaluate.must_translate`, and the built-in ones."""
    unfinished: int
    """Translations that reached their greatest length without an end."""
    seconds: float
    """Time that translating took."""
    sentences_per_second: float
    tokens_per_second: float
    """Target tokens per second of translating."""
    tokens: int
    """Target tokens of all translations, the end marks not counted."""
    threads: int
    """CPU threads that translated."""
    device: str
    """cpu or cuda."""
    test_sets: dict[str, str]
    """sha256 of the text of each test set."""


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> EvaluateReport:
    """Stage `evaluate`: `<test set>.hypotheses.txt` and `<test set>.sentences.parquet` for each test set, and scores.

    Raises:
        ModelError: the bundle is damaged.
    """
    translator = Translator.load(inputs["export"].path, config.search, job.resources.threads)
    tests = read_test_sets(inputs["split"].path)
    scores, samples = list[Score](), list[Sample]()
    known_of, unknown_of = dict[str, int](), dict[str, float]()
    buckets = list[LengthBucket]()
    sentences = tokens = unfinished = 0
    seconds = 1e-9  # no division by 0, whatever the clock's resolution
    for number, test in enumerate(tests):
        job.reporter.progress(number, len(tests), f"translating {test.name}")
        start = time.monotonic()
        translations = translator.translate(test.sources)
        seconds += time.monotonic() - start
        sentences += len(test.sources)
        tokens += sum(translation.tokens for translation in translations)
        unfinished += sum(translation.status == "unfinished" for translation in translations)
        hypotheses = [translation.text for translation in translations]
        hypotheses_file(out, test.name).write_text("".join(f"{text}\n" for text in hypotheses), encoding="utf-8")
        write_sentences(out, test, translations)
        texts, target = (hypotheses, test.references), config.languages.target
        scores += scores_with_intervals(test.name, texts, target, config.evaluate.interval_samples)
        known = translate_known(test, hypotheses, translator)
        known_of[test.name], unknown_of[test.name] = len(known), unknown_in_references(test, translator)
        scores += further_scores(test, hypotheses, known, target, job.reporter.log)
        buckets += by_length(test, hypotheses, config.languages)
        if number == 0:
            samples = _spread(test, hypotheses, config.evaluate.samples)
    samples += _further(config, translator)
    job.reporter.progress(len(tests), len(tests), ", ".join(f"{s.test_set} {s.metric} {s.score:.1f}" for s in scores))
    return EvaluateReport(
        items_in=sentences,
        items_out=sentences,
        unit="sentences",
        scores=scores,
        known_sentences=known_of,
        unknown_in_references=unknown_of,
        samples=samples,
        by_length=buckets,
        must_translate=check_sentences(config, translator),
        unfinished=unfinished,
        seconds=round(seconds, 3),
        sentences_per_second=round(sentences / seconds, 1),
        tokens_per_second=round(tokens / seconds, 1),
        tokens=tokens,
        threads=job.resources.threads,
        device=translator.device,
        test_sets={test.name: test.sha256 for test in tests},
    )


def check_sentences(config: PipelineConfig, translator: Translator) -> list[SentenceCheck]:
    """How a model translates the sentences that it must get right."""
    asked = [sentence.source for _, sentence in must_translate.sentences(config.evaluate)]
    translations = [translation.text for translation in translator.translate(asked)]
    return must_translate.check(config.evaluate, translations, config.languages)


def _further(config: PipelineConfig, translator: Translator) -> list[Sample]:
    asked = config.evaluate.sentences
    return [
        Sample(source=source, reference="", translation=translation.text)
        for source, translation in zip(asked, translator.translate(asked), strict=True)
    ]


def _spread(test: TestSet, hypotheses: Sequence[str], count: int) -> list[Sample]:
    """Sentences at even distances: a test set often begins with a run of similar ones."""
    count = min(count, len(hypotheses))
    places = [number * len(hypotheses) // count for number in range(count)]
    return [
        Sample(source=test.sources[place], reference=test.references[place], translation=hypotheses[place])
        for place in places
    ]
