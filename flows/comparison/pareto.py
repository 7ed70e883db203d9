"""Measure quality, speed and size of every precision and beam of the compared models, and find the best trade-offs.

A point is dominated if another one is at least as good in all three measures and better in one. The points that are
not dominated are the Pareto front: each is the best choice for some demand.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel

from nmt_core.bundle.folder import ATTENTION_SET, read_bundle
from nmt_core.config import PipelineConfig, Precision
from nmt_core.evaluate.significance import scores_with_intervals
from nmt_core.evaluate.test_sets import TestSet, read_test_sets
from nmt_core.search.alignment import ALIGNMENT_FILE
from nmt_core.search.attention import ATTENTION_FILE
from nmt_core.store.artifacts import Artifact
from nmt_core.translator import Translator

_LEAST_CPU_SECONDS = 3.0
"""CPU-seconds for which a point translates its test set, again and again. A short measurement is a rough one."""
_BYTES_OF_A_MEGABYTE = 1e6


class Point(BaseModel):
    """Quality, speed and size of one model in one precision with one beam."""

    recipe: str
    """Name of the recipe with its own changes."""
    precision: Precision
    beam_size: int
    """Beam size of the search. 1 is greedy search."""
    test_set: str
    bleu: float
    """BLEU on the test set."""
    low: float | None = None
    """Lower end of the 95% confidence interval of BLEU. None means that evaluate.interval_samples is 0."""
    high: float | None = None
    """Upper end of the 95% confidence interval of BLEU."""
    tokens_per_cpu_second: float
    """Target tokens per CPU-second with one thread, end marks included, in the fastest of several rounds."""
    megabytes: float
    """Size of the files that translate, in megabytes (10^6 bytes)."""

    @property
    def use(self) -> str:
        """Precision and search as text."""
        return f"{self.precision}, {'greedy' if self.beam_size == 1 else f'beam {self.beam_size}'}"

    @property
    def label(self) -> str:
        """Recipe, precision and search as text."""
        return f"{self.recipe}, {self.use}"

    def dominates(self, other: "Point") -> bool:
        """Return True if this point is at least as good as the other in all measures, and better in one."""
        own, others = ((point.bleu, point.tokens_per_cpu_second, -point.megabytes) for point in (self, other))
        return own != others and all(one >= of_other for one, of_other in zip(own, others, strict=True))


def is_dominated(point: Point, points: Sequence[Point]) -> bool:
    """Return True if one of the points dominates this one."""
    return any(other.dominates(point) for other in points)


def measure_points(recipe: str, config: PipelineConfig, export: Artifact, split: Artifact) -> Iterator[Point]:
    """Measure a model on its first test set, on the CPU, in each precision for CPUs, greedily and with its beam.

    Args:
        recipe: name of the recipe with its own changes.
        config: the recipe.
        export: artifact of the stage `export`.
        split: artifact with the test sets.
    """
    test = read_test_sets(split.path)[0]
    precisions = [name for name in read_bundle(export.path).precisions if name != "fp16"]
    for precision in precisions:
        for beam_size in sorted({1, config.search.beam_size}):
            yield _measure(recipe, config, export.path, test, precision, beam_size)


def _measure(
    recipe: str, config: PipelineConfig, bundle: Path, test: TestSet, precision: Precision, beam_size: int
) -> Point:
    changes = {"precision": precision, "beam_size": beam_size, "method": "beam", "n_best": 1, "alignments": "none"}
    search = config.search.without_judge.model_copy(update=changes)
    translator = Translator.load(bundle, search, threads=1, device="cpu", scores=False)
    translator = translator.into(test.pair) if test.pair else translator
    translator.translate(test.sources[:1])  # set-up at the first call is not timed
    spent, best = 0.0, 0.0
    while not best or spent < _LEAST_CPU_SECONDS:
        started = time.process_time()
        translations = translator.translate(test.sources)
        seconds = max(time.process_time() - started, 1e-9)
        tokens = sum(translation.tokens + 1 for translation in translations)
        spent, best = spent + seconds, max(best, tokens / seconds)
    texts = [translation.text for translation in translations]
    scores = scores_with_intervals(
        test.name,
        (texts, test.references),
        test.target_language(config.languages.target),
        config.evaluate.interval_samples,
    )
    bleu = next(score for score in scores if score.metric == "BLEU")
    return Point(
        recipe=recipe,
        precision=precision,
        beam_size=beam_size,
        test_set=test.name,
        bleu=bleu.score,
        low=bleu.low,
        high=bleu.high,
        tokens_per_cpu_second=round(best, 1),
        megabytes=round(_bytes(bundle, precision) / _BYTES_OF_A_MEGABYTE, 3),
    )


def _bytes(bundle: Path, precision: Precision) -> int:
    """Return the size of the files of a bundle that one precision needs, without graphs that only show attention."""
    unused = {bundle / ATTENTION_SET / name for name in (ATTENTION_FILE, ALIGNMENT_FILE)}
    files = [*bundle.iterdir(), *(bundle / precision).iterdir()]
    return sum(file.stat().st_size for file in files if file.is_file() and file not in unused)


def pareto_table(points: Sequence[Point]) -> list[list[str]]:
    """Return the titles, and a row for each point, the fastest first. Points that are dominated have a dash at the end.

    Return an empty list if there are no points.
    """
    if not points:
        return []
    title = f"{points[0].test_set}: model, precision and search"
    lines = [[title, "BLEU", "95% interval", "tokens/CPU-second", "MB", "Pareto front"]]
    for point in sorted(points, key=lambda one: -one.tokens_per_cpu_second):
        interval = "-" if point.low is None or point.high is None else f"{point.low:.1f} to {point.high:.1f}"
        figures = (f"{point.bleu:.2f}", interval, f"{point.tokens_per_cpu_second:,.0f}", f"{point.megabytes:,.1f}")
        lines.append([point.label, *figures, "-" if is_dominated(point, points) else "yes"])
    return lines
