"""Judge translations by the metrics of `evaluate.metrics`: metrics of sacreBLEU, and programs.

A program reads one JSON object a line from its standard input, with `source`, `translation` and `reference`, until the
input ends, and writes one number a line to its standard output. It may be any neural metric in an environment of its
own, such as COMET, MetricX or a language model. Programs of this kind with their models were not available here, so
only other programs have been tested.

A metric that cannot be computed is left out with its reason. Every other score is computed all the same.
"""

import contextlib
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import cast

import numpy as np

from nmt_core.config import BuiltInMetric, EvaluateConfig, Metric
from nmt_core.corpus.cleaning.scorers import last_words
from nmt_core.errors import ConfigError, NmtError, counted
from nmt_core.evaluate.metric_files import sha256_of_content
from nmt_core.evaluate.significance import with_interval
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.execution.processes import bound_to_us, end
from nmt_core.scoring import Counts, Pieces, Score, SentenceStatistics, Statistics

_SHOWN = 300  # characters of a program's output in a message
_DIGITS = 12  # of a hash in a signature
_GRACE_SECONDS = 5.0


class MetricError(NmtError):
    """Error of one metric, which is left out of the scores."""


@dataclass
class Judged:
    """Scores of one test set by all metrics of `evaluate.metrics`."""

    scores: list[Score] = field(default_factory=list)
    numbers: dict[str, list[float]] = field(default_factory=dict)
    """Number that each program gave to each sentence, times its factor, by the name of the metric."""
    not_scored: dict[str, str] = field(default_factory=dict)
    """Reason why a metric was left out, by its name."""


class ProgramStatistics(Statistics):
    """Numbers of a program, whose score is their mean.

    Args:
        metric: name of the metric.
        numbers: number of each sentence.
        signature: name, version and checkpoint of the program.
    """

    def __init__(self, metric: str, numbers: Sequence[float], signature: str) -> None:
        super().__init__(metric, np.array([[number, 1.0] for number in numbers]), signature)

    def score_of(self, sums_K: Counts) -> float:
        """Return the mean of any selection of sentences, from the sum of their numbers and their number."""
        return float(sums_K[0] / sums_K[1])


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
            if metric.command:
                numbers = list(known.get(metric.name, ()))
                numbers = numbers or _numbers(test, hypotheses, metric, allow_code=allow_code)
                judged.numbers[metric.name] = numbers
                found: Statistics = ProgramStatistics(metric.name, numbers, _signature(metric))
            else:
                found = _built_in(test, hypotheses, metric, target_language)
        except (ConfigError, MetricError) as error:
            judged.not_scored[metric.name] = str(error)
            notice(f"{metric.name} of {test.name} is left out: {error}")
            continue
        judged.scores.append(with_interval(test.name, found, config.interval_samples))
    return judged


def _built_in(test: TestSet, hypotheses: Sequence[str], metric: Metric, target_language: str) -> SentenceStatistics:
    pieces = Pieces(Path(metric.vocabulary) if metric.vocabulary else None) if metric.name == "spBLEU" else None
    name = cast(BuiltInMetric, metric.name)
    return SentenceStatistics(name, hypotheses, test.references, target_language, pieces)


def _signature(metric: Metric) -> str:
    checkpoint = f"sha256-{sha256_of_content(Path(metric.checkpoint))[:_DIGITS]}" if metric.checkpoint else "not stated"
    version = metric.version or "not stated"
    return f"{metric.name}|version:{version}|checkpoint:{checkpoint}|mean of sentences|factor:{metric.factor:g}"


def _numbers(test: TestSet, hypotheses: Sequence[str], metric: Metric, *, allow_code: bool) -> list[float]:
    """Run the program of a metric, and return its number for each sentence, times its factor.

    Raises:
        MetricError: programs are not allowed, the checkpoint is missing, or the program cannot be started, fails, takes
            too long, or does not write one number for each sentence.
    """
    place = f"`{metric.command}`"
    if not allow_code:
        raise MetricError(
            f"{place}: the recipe names a program to run, which NMT_ALLOW_CODE forbids here (the default for recipes "
            "from a Prefect server): run the recipe with `nmt run`, or set NMT_ALLOW_CODE=1 for the worker if everyone "
            "who can reach that server may run programs there"
        )
    if metric.checkpoint and not Path(metric.checkpoint).exists():
        raise MetricError(f"{metric.checkpoint}: the checkpoint is missing: correct `checkpoint`, or put it there")
    rows = zip(test.sources, hypotheses, test.references, strict=True)
    lines = [
        json.dumps({"source": source, "translation": translation, "reference": reference})
        for source, translation, reference in rows
    ]
    written, words = _run(metric, place, "".join(f"{line}\n" for line in lines).encode("ascii"))
    if len(written) != len(lines):
        raise MetricError(
            f"{place}: wrote {counted(len(written), 'line')} for {counted(len(lines), 'sentence')}{words}: it must "
            "write one number for each line that it reads, and nothing else"
        )
    return [_number(text, line, place) * metric.factor for line, text in enumerate(written, 1)]


def _number(text: str, line: int, place: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise MetricError(
            f"{place}: wrote {text[:_SHOWN]!r} as line {line:,}: it must write one finite number for each line that it "
            "reads, and nothing else"
        )
    return number


def _run(metric: Metric, place: str, given: bytes) -> tuple[list[str], str]:
    """Return the lines that the program wrote, and the end of its error output in parentheses."""
    command = shlex.split(metric.command)
    if not shutil.which(command[0]):
        raise _cannot_start(place, "there is no such program")
    try:
        process = subprocess.Popen(
            bound_to_us(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise _cannot_start(place, error.strerror or str(error)) from None
    try:
        written, said = process.communicate(given, timeout=metric.max_seconds)
    except subprocess.TimeoutExpired:
        raise MetricError(
            f"{place}: was not done within {metric.max_seconds:g} seconds (`max_seconds`), and was ended: raise the "
            "limit, or let the program use a faster device"
        ) from None
    finally:
        if process.poll() is None:
            end(process, _GRACE_SECONDS)
        with contextlib.suppress(ProcessLookupError):  # what it has started and left behind
            os.killpg(process.pid, signal.SIGKILL)
    words = last_words(said)
    if process.returncode:
        cause = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
        raise MetricError(
            f"{place}: ended with {cause}{words}: run it by hand with one line of JSON: source, translation and "
            "reference"
        )
    return written.decode("utf-8", "replace").splitlines(), words


def _cannot_start(place: str, reason: str) -> MetricError:
    return MetricError(
        f"{place}: cannot be started ({reason}): install it where the evaluation runs, or correct the command"
    )
