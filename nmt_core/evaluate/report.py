"""Stage `evaluate`: translate the test sets with the exported bundle, and score them. What is scored is what ships."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import polars
from pydantic import BaseModel, ConfigDict

from nmt_core.config import PipelineConfig
from nmt_core.evaluate.by_length import LengthBucket, by_length
from nmt_core.evaluate.sentences import write_sentences
from nmt_core.scoring import Score, score
from nmt_core.search.onnx_step import OnnxStepper
from nmt_core.stage import Inputs, Job, StageReport
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
    """BLEU and chrF of each test set, the main test set first."""
    samples: list[Sample]
    by_length: list[LengthBucket]
    """BLEU of each test set by the length of the source."""
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


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> EvaluateReport:
    """Stage `evaluate`: `<test set>.hypotheses.txt` and `<test set>.sentences.parquet` for each test set, and scores.

    Raises:
        ModelError: the bundle is damaged.
    """
    translator = Translator.load(inputs["export"].path, config.search, job.resources.threads)
    folder = inputs["split"].path
    tests: dict[str, str] = json.loads((folder / "splits.json").read_text(encoding="utf-8"))["tests"]
    scores, samples, buckets = list[Score](), list[Sample](), list[LengthBucket]()
    sentences = tokens = unfinished = 0
    seconds = 1e-9  # no division by 0, whatever the clock's resolution
    for number, (name, file) in enumerate(tests.items()):
        job.reporter.progress(number, len(tests), f"translating {name}")
        pairs = polars.read_parquet(folder / file, columns=["source", "target"], glob=False)
        sources, references = pairs["source"].to_list(), pairs["target"].to_list()
        start = time.monotonic()
        translations = translator.translate(sources)
        seconds += time.monotonic() - start
        sentences += len(sources)
        tokens += sum(translation.tokens for translation in translations)
        unfinished += sum(translation.status == "unfinished" for translation in translations)
        hypotheses = [translation.text for translation in translations]
        (out / f"{name}.hypotheses.txt").write_text("".join(f"{text}\n" for text in hypotheses), encoding="utf-8")
        write_sentences(out, name, sources, references, translations)
        scores += score(name, hypotheses, references, config.languages.target)
        buckets += by_length(name, sources, hypotheses, references, config.languages)
        if number == 0:
            samples = _spread(sources, references, hypotheses, config.evaluate.samples)
    further = config.evaluate.sentences
    samples += [
        Sample(source=source, reference="", translation=translation.text)
        for source, translation in zip(further, translator.translate(further), strict=True)
    ]
    job.reporter.progress(len(tests), len(tests), ", ".join(f"{s.test_set} {s.metric} {s.score:.1f}" for s in scores))
    return EvaluateReport(
        items_in=sentences,
        items_out=sentences,
        unit="sentences",
        scores=scores,
        samples=samples,
        by_length=buckets,
        unfinished=unfinished,
        seconds=round(seconds, 3),
        sentences_per_second=round(sentences / seconds, 1),
        tokens_per_second=round(tokens / seconds, 1),
        tokens=tokens,
        threads=job.resources.threads,
        device=cast(OnnxStepper, translator.stepper).device,
    )


def _spread(sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str], count: int) -> list[Sample]:
    """Sentences at even distances: a test set often begins with a run of similar ones."""
    count = min(count, len(sources))
    places = [number * len(sources) // count for number in range(count)]
    return [
        Sample(source=sources[place], reference=references[place], translation=hypotheses[place]) for place in places
    ]
