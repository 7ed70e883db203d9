"""Estimate the confidence interval of a score, and the significance of a difference, by resampling the test set.

A resample has as many sentences as the test set, drawn from it with replacement. Its score is computed from the sums of
their counts. Paired resampling draws the same sentences for both systems (Koehn 2004). Approximate randomisation
exchanges the translations of randomly chosen sentences (Riezler and Maxwell 2005). Counts, scores and draws are the
same as in sacreBLEU. Memory does not grow with the number of resamples.

The p-value and the interval of a comparison have the same construction, so that "significant" and "the interval
excludes 0" mean the same. With the bootstrap, the interval holds the middle of the resampled differences, and p is the
smallest level at which the interval excludes 0. sacreBLEU's `--paired-bs` shifts the absolute differences instead,
which gives about half of this p and matches no interval. With randomisation, p equals the p of `sacrebleu --paired-ar`,
and the interval extends to both sides as far as exchanges alone move the difference.

Letters in names of arrays: R resamples, S sentences, K counts of a metric.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nmt_core.config import SignificanceTest
from nmt_core.scoring import Counts, Score, Statistics, statistics

SEED = 12_345  # the default of sacreBLEU, so that its command line draws the same sentences
_DRAWN_AT_ONCE = 1 << 20  # sentences: some MB
_NOISE = 1e-9
_ALIGNED = 32  # random bits are generated 32 at a time, and unused ones are discarded at the end of a block


@dataclass(frozen=True)
class Comparison:
    """Comparison of two systems on one test set."""

    champion: float
    """Score of the champion."""
    challenger: float
    """Score of the challenger."""
    low: float
    """Lower end of the confidence interval of the difference, at the level 1 - alpha."""
    high: float
    """Upper end of the confidence interval of the difference."""
    p_value: float
    """Two-sided p-value. It is below alpha if and only if the interval excludes 0, and 1 without any difference."""
    lower_is_better: bool = False
    """True if a lower score is better."""

    @property
    def difference(self) -> float:
        """Score of the challenger minus score of the champion."""
        return self.challenger - self.champion

    @property
    def is_better(self) -> bool:
        """True if the challenger is significantly better."""
        return self.high < 0 if self.lower_is_better else self.low > 0

    @property
    def is_worse(self) -> bool:
        """True if the challenger is significantly worse."""
        return self.low > 0 if self.lower_is_better else self.high < 0

    def is_worse_by(self, margin: float) -> bool:
        """Return True if the whole interval of the challenger's loss is above a margin."""
        return self.low > margin if self.lower_is_better else self.high < -margin


def interval(found: Statistics, samples: int) -> tuple[float, float]:
    """Return the 95% confidence interval of a score, from `samples` resamples.

    Time grows with the number of resamples and the number of sentences.
    """
    return _middle([found.score_of(sums_K) for (sums_K,) in _resampled([found.counts_SK], samples)])


def scores_with_intervals(
    test_set: str, translations: tuple[Sequence[str], Sequence[str]], target_language: str, samples: int
) -> list[Score]:
    """Return BLEU and chrF of a test set with their confidence intervals.

    Args:
        test_set: name of the test set.
        translations: the hypotheses, and the references.
        target_language: language that decides how BLEU splits text into words.
        samples: number of resamples. 0 computes no intervals.

    Raises:
        DataError: there are no sentences, or the numbers of hypotheses and references differ.
    """
    return [with_interval(test_set, found, samples) for found in statistics(test_set, *translations, target_language)]


def with_interval(test_set: str, found: Statistics, samples: int) -> Score:
    """Return a score of a test set with its confidence interval.

    Args:
        test_set: name of the test set.
        found: statistics of the metric.
        samples: number of resamples. 0 computes no interval.
    """
    ends = dict(zip(("low", "high"), interval(found, samples), strict=True)) if samples else {}
    return Score(
        test_set=test_set,
        metric=found.metric,
        score=round(found.score, 4),
        signature=found.signature,
        **{end: round(value, 4) for end, value in ends.items()},
    )


def compare(
    champion: Statistics,
    challenger: Statistics,
    samples: int,
    test: SignificanceTest = "bootstrap",
    alpha: float = 0.05,
) -> Comparison:
    """Compare two translations of the same test set, by the same metric.

    Args:
        champion: statistics of the champion.
        challenger: statistics of the challenger.
        samples: number of resamples, or of trials of the randomisation.
        test: test of significance.
        alpha: level of significance. With fewer than 2 / alpha samples nothing can be significant.
    """
    both = [champion.counts_SK, challenger.counts_SK]
    scores = champion.score, challenger.score
    if test == "bootstrap":
        drawn = [challenger.score_of(new_K) - champion.score_of(old_K) for old_K, new_K in _resampled(both, samples)]
        return Comparison(*scores, *_percentiles(drawn, alpha), champion.lower_is_better)
    exchanged = [champion.score_of(a_K) - champion.score_of(b_K) for a_K, b_K in _exchanged(both, samples)]
    return Comparison(*scores, *_around(scores[1] - scores[0], exchanged, alpha), champion.lower_is_better)


def _percentiles(drawn: Sequence[float], alpha: float) -> tuple[float, float, float]:
    """Return the interval with the middle of the resampled differences, and the p-value."""
    ordered = np.sort(_without_noise(np.array(drawn)))
    samples = len(ordered)

    def p_of(beyond: int) -> float:
        return min(1.0, 2 * (beyond + 1) / (samples + 1))

    p_value = p_of(min(int((ordered <= 0).sum()), int((ordered >= 0).sum())))
    cut = _cut(p_of, samples, alpha)
    if cut < 0:  # too few samples for any significance
        return min(float(ordered[0]), 0.0), max(float(ordered[-1]), 0.0), p_value
    return float(ordered[cut]), float(ordered[samples - 1 - cut]), p_value


def _around(difference: float, by_chance: Sequence[float], alpha: float) -> tuple[float, float, float]:
    """Return the interval around a difference, as wide as chance alone makes a difference, and the p-value."""
    difference = float(_without_noise(np.array(difference)))
    sizes = np.abs(by_chance)
    # Values that equal the difference except for rounding count as equal.
    sizes = np.sort(np.where(np.abs(sizes - abs(difference)) < _NOISE, abs(difference), sizes))[::-1]

    def p_of(as_large: int) -> float:
        return (as_large + 1) / (len(sizes) + 1)

    p_value = p_of(int((sizes >= abs(difference)).sum()))
    cut = _cut(p_of, len(sizes), alpha)
    reach = float(sizes[cut]) if cut >= 0 else max(float(sizes[0]), abs(difference))
    return difference - reach, difference + reach, min(1.0, p_value)


def _cut(p_of: Callable[[int], float], samples: int, alpha: float) -> int:
    """Return the largest number of samples beyond 0 with a p-value below alpha, or -1 if even 0 is too many."""
    return max((beyond for beyond in range(samples // 2) if p_of(beyond) < alpha), default=-1)


def _without_noise(values: Any) -> Any:
    """Set differences to 0 that are 0 except for the rounding of sums."""
    return np.where(np.abs(values) < _NOISE, 0.0, values)


def _resampled(systems: Sequence[Counts], samples: int) -> Iterator[list[Counts]]:
    """Yield the sums of the counts of each system, for each resample."""
    sentences = len(systems[0])
    generator = np.random.default_rng(SEED)
    for first, last in pairwise(_blocks(samples, max(1, _DRAWN_AT_ONCE // sentences))):
        for drawn_S in generator.choice(sentences, size=(last - first, sentences), replace=True):
            times_S = np.bincount(drawn_S, minlength=sentences)
            yield [times_S @ counts_SK for counts_SK in systems]


def _exchanged(systems: Sequence[Counts], samples: int) -> Iterator[tuple[Counts, Counts]]:
    """Yield the sums of two mixed systems for each trial, which exchange randomly chosen sentences."""
    sentences = len(systems[0])
    generator = np.random.default_rng(SEED)
    rows = max(1, _DRAWN_AT_ONCE // sentences // _ALIGNED) * _ALIGNED
    total_K = systems[0].sum(axis=0) + systems[1].sum(axis=0)
    for first, last in pairwise(_blocks(samples, rows)):
        kept_RS = generator.integers(2, size=(last - first, sentences), dtype=bool)
        sums_RK = kept_RS @ systems[0] + ~kept_RS @ systems[1]
        yield from ((sums_K, total_K - sums_K) for sums_K in sums_RK)


def _blocks(samples: int, rows: int) -> list[int]:
    return [*range(0, samples, rows), samples]


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """Return the lower and upper end of the middle 95% of the values."""
    ordered, cut = sorted(values), len(values) // 40
    return ordered[cut], ordered[len(ordered) - cut - 1]
