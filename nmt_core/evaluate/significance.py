"""How far chance explains a score, or the difference of two: resampling of the test set.

A resample has as many sentences as the test set, drawn from it with replacement; a score is computed anew from the sums
of its counts. Paired resampling draws the same sentences for both systems (Koehn 2004); approximate randomisation
exchanges the translations of sentences drawn by chance (Riezler and Maxwell 2005). Counts, scores, draws and p-values
are those of sacreBLEU, so that `sacrebleu --paired-bs` and `--paired-ar` show the same; what is added are the interval
of the difference, which sacreBLEU does not give, and memory that does not grow with the number of resamples.

Letters in names of arrays: R resamples, S sentences, K counts of a metric.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nmt_core.config import SignificanceTest
from nmt_core.scoring import Counts, Score, SentenceStatistics, statistics

SEED = 12_345  # sacreBLEU's own, so that its command line draws the same sentences
_DRAWN_AT_ONCE = 1 << 20  # sentences: some MB
_ALIGNED = 32  # random bits are made 32 at a time, and what is left of them at the end of a block is thrown away


@dataclass(frozen=True)
class Comparison:
    """Two systems on one test set."""

    champion: float
    challenger: float
    low: float
    """Lower end of the 95% confidence interval of the difference."""
    high: float
    p_value: float
    """Two-sided; 1 if there is no difference at all."""

    @property
    def difference(self) -> float:
        """Challenger less champion."""
        return self.challenger - self.champion


def interval(found: SentenceStatistics, samples: int) -> tuple[float, float]:
    """The 95% confidence interval of a score, from so many resamples.

    Time grows with their number and with that of sentences.
    """
    return _middle([found.score_of(sums_K) for (sums_K,) in _resampled([found.counts_SK], samples)])


def scores_with_intervals(
    test_set: str, translations: tuple[Sequence[str], Sequence[str]], target_language: str, samples: int
) -> list[Score]:
    """BLEU and chrF of a test set with their confidence intervals.

    Args:
        test_set: its name.
        translations: the hypotheses, and the references.
        target_language: decides how BLEU finds words.
        samples: resamples; 0: no intervals.

    Raises:
        DataError: there are no sentences, or not as many hypotheses as references.
    """
    scores = []
    for found in statistics(test_set, *translations, target_language):
        ends = dict(zip(("low", "high"), interval(found, samples), strict=True)) if samples else {}
        scores.append(
            Score(
                test_set=test_set,
                metric=found.metric,
                score=round(found.score, 4),
                signature=found.signature,
                **{end: round(value, 4) for end, value in ends.items()},
            )
        )
    return scores


def compare(
    champion: SentenceStatistics, challenger: SentenceStatistics, samples: int, test: SignificanceTest = "bootstrap"
) -> Comparison:
    """Compare two translations of the same test set, by the same metric."""
    both = [champion.counts_SK, challenger.counts_SK]
    scores = champion.score, challenger.score
    drawn = [
        challenger.score_of(new_K) - champion.score_of(old_K) for old_K, new_K in _resampled(both, samples)
    ]  # always: randomisation has no interval to give
    low, high = _middle(drawn)
    observed = abs(scores[1] - scores[0])
    if not observed:
        return Comparison(*scores, low, high, p_value=1.0)
    if test == "bootstrap":  # shifted, to what it would be if there were no difference
        by_chance = np.abs(drawn) - np.abs(drawn).mean()
    else:
        exchanged = _exchanged(both, samples)
        by_chance = np.array([abs(champion.score_of(a_K) - champion.score_of(b_K)) for a_K, b_K in exchanged])
    p_value = (int((by_chance > observed).sum()) + 1) / (samples + 1)
    return Comparison(*scores, low, high, p_value)


def _resampled(systems: Sequence[Counts], samples: int) -> Iterator[list[Counts]]:
    """For each resample the sums of the counts of each system."""
    sentences = len(systems[0])
    generator = np.random.default_rng(SEED)
    for first, last in pairwise(_blocks(samples, max(1, _DRAWN_AT_ONCE // sentences))):
        for drawn_S in generator.choice(sentences, size=(last - first, sentences), replace=True):
            times_S = np.bincount(drawn_S, minlength=sentences)
            yield [times_S @ counts_SK for counts_SK in systems]


def _exchanged(systems: Sequence[Counts], samples: int) -> Iterator[tuple[Counts, Counts]]:
    """For each trial the sums of two systems made of the two, each sentence by chance of the one or of the other."""
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
    """Where the middle 95% of the values begin and end."""
    ordered, cut = sorted(values), len(values) // 40
    return ordered[cut], ordered[len(ordered) - cut - 1]
