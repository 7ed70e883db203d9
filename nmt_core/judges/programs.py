"""Judge translations by a metric of a recipe: one of sacreBLEU, or a program.

The program reads one JSON object a line from its standard input, with `source`, `translation` and `reference`, until
the input ends, and writes one number a line to its standard output. It may be any neural metric in an environment of
its own, such as COMET, MetricX or a language model. Programs of this kind with their models were not available here, so
only other programs have been tested.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from nmt_core.config import BuiltInMetric, Metric, RerankingJudge
from nmt_core.errors import counted
from nmt_core.judges.files import sha256_of_content
from nmt_core.judges.lines import ProgramError, require_code, run_program
from nmt_core.scoring import Counts, Pieces, SentenceStatistics, Statistics

_SHOWN = 300  # characters of a program's output in a message
_DIGITS = 12  # of a hash in a signature


class ProgramStatistics(Statistics):
    """Numbers of a program, whose score is their mean.

    Args:
        metric: the metric of the recipe.
        numbers: number of each sentence, times the factor of the metric.
    """

    def __init__(self, metric: Metric, numbers: Sequence[float]) -> None:
        counts_SK = np.array([[number, 1.0] for number in numbers])
        super().__init__(metric.name, counts_SK, signature_of(metric))
        self.lower_is_better = metric.lower_is_better

    @property
    def numbers(self) -> list[float]:
        """Number of each sentence, times the factor of the metric."""
        return [float(number) for number in self.counts_SK[:, 0]]

    def score_of(self, sums_K: Counts) -> float:
        """Return the mean of any selection of sentences, from the sum of their numbers and their number."""
        return float(sums_K[0] / sums_K[1])


def signature_of(metric: Metric) -> str:
    """Return the name, version and checkpoint of a program, and how its numbers become a score."""
    checkpoint = f"sha256-{sha256_of_content(Path(metric.checkpoint))[:_DIGITS]}" if metric.checkpoint else "not stated"
    version = metric.version or "not stated"
    return f"{metric.name}|version:{version}|checkpoint:{checkpoint}|mean of sentences|factor:{metric.factor:g}"


def statistics_of(
    metric: Metric,
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    target_language: str,
    *,
    allow_code: bool,
) -> Statistics:
    """Return the statistics of translations by any metric of a recipe.

    Args:
        metric: the metric.
        sources: sentences.
        translations: their translations.
        references: their reference translations.
        target_language: ISO 639 code.
        allow_code: False if recipes may not name programs (NMT_ALLOW_CODE).

    Raises:
        ConfigError: the vocabulary of spBLEU is missing.
        ProgramError: see `numbers_of`.
    """
    if metric.command:
        numbers = numbers_of(metric, sources, translations, references, allow_code=allow_code)
        return ProgramStatistics(metric, numbers)
    pieces = Pieces(Path(metric.vocabulary) if metric.vocabulary else None) if metric.name == "spBLEU" else None
    name = cast(BuiltInMetric, metric.name)
    return SentenceStatistics(name, translations, references, target_language, pieces)


def numbers_of(
    metric: Metric, sources: Sequence[str], translations: Sequence[str], references: Sequence[str], *, allow_code: bool
) -> list[float]:
    """Run the program of a metric, and return its number for each sentence, times its factor.

    Args:
        metric: the metric.
        sources: sentences.
        translations: their translations.
        references: their reference translations.
        allow_code: False if recipes may not name programs (NMT_ALLOW_CODE).

    Raises:
        ProgramError: programs are not allowed, the checkpoint is missing, or the program cannot be started, fails,
            takes too long, or does not write one number for each sentence.
    """
    rows = [
        {"source": source, "translation": translation, "reference": reference}
        for source, translation, reference in zip(sources, translations, references, strict=True)
    ]
    numbers = numbers_of_rows(metric, rows, "source, translation and reference", allow_code=allow_code)
    return [number * metric.factor for number in numbers]


def numbers_of_rows(
    program: Metric | RerankingJudge, rows: Sequence[Mapping[str, str]], fields: str, *, allow_code: bool
) -> list[float]:
    """Run a program that judges, and return its number for each row, as it wrote it.

    Args:
        program: the program.
        rows: objects that it reads, one a line.
        fields: names of the fields of a row, for messages.
        allow_code: False if recipes may not name programs (NMT_ALLOW_CODE).

    Raises:
        ProgramError: see `numbers_of`.
    """
    place, checkpoint = f"`{program.command}`", program.checkpoint
    require_code(place, allow_code=allow_code)
    if checkpoint and not Path(checkpoint).exists():
        raise ProgramError(f"{checkpoint}: the checkpoint is missing: correct `checkpoint`, or put it there")
    given = "".join(f"{json.dumps(row)}\n" for row in rows).encode("ascii")
    written, words = run_program(program.command, given, program.max_seconds, f"one line of JSON: {fields}")
    if len(written) != len(rows):
        raise ProgramError(
            f"{place}: wrote {counted(len(written), 'line')} for {counted(len(rows), 'sentence')}{words}: it must "
            "write one number for each line that it reads, and nothing else"
        )
    return [_number(text, line, place) for line, text in enumerate(written, 1)]


def _number(text: str, line: int, place: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ProgramError(
            f"{place}: wrote {text[:_SHOWN]!r} as line {line:,}: it must write one finite number for each line that it "
            "reads, and nothing else"
        )
    return number
