"""Compare two profiles: which measures differ, by how much, and whether chance explains it.

Each measure has a two-sample test and an effect size. The test of a numeric measure is Kolmogorov-Smirnov's on its
bins, which is conservative because values of one bin count as equal (Noether 1963). The test of names is chi-square on
the table of counts, in which rare names are one. The p-values of one comparison are corrected together (Holm 1979).

In a large job every difference is significant, and in a small one no effect size is sure. So a measure drifts only if
it is significant and the population stability index (PSI), the symmetric Kullback-Leibler divergence of the binned
distributions (Jeffreys 1946), is at least `LEAST_PSI`. Risk models have used 0.1 and 0.25 as limits of a moderate and
of a large change since Siddiqi (2006, "Credit Risk Scorecards").
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from scipy.special import bdtr, bdtrc, chdtrc, kolmogorov  # scipy.stats takes seconds to import

from nmt_core.drift.profile import CATEGORIES, EDGES, Profile, words_of

ALPHA = 0.001
"""Level of significance of one comparison, over all its measures: one false alarm in 1,000 jobs at most."""
LEAST_PSI = 0.1
"""Smallest population stability index that counts as a difference."""
LARGE_PSI = 0.25
"""Population stability index from which a difference is large."""

_GROUPS = 10
_PSEUDO_COUNT = 0.5
_LEAST_EXPECTED = 5.0
_OTHERS = "others"

Counts = NDArray[np.int64]


class Difference(BaseModel):
    """Difference of one measure between two profiles."""

    model_config = ConfigDict(frozen=True)
    measure: str
    """Name of the measure, see `profile.EDGES` and `profile.CATEGORIES`."""
    test: Literal["Kolmogorov-Smirnov", "chi-square"]
    statistic: float
    """Largest difference of the two distributions, between 0 and 1, or Cramér's V, between 0 and 1."""
    p_value: float
    """Probability of such a difference by chance, corrected for the number of measures (Holm 1979)."""
    psi: float
    """Population stability index."""
    drifts: bool
    """True if the difference is significant and large enough to matter."""


class Drift(BaseModel):
    """Comparison of a job's profile with another one."""

    model_config = ConfigDict(frozen=True)
    against: Literal["training text", "earlier jobs"]
    lines: int
    """Number of lines of the job."""
    reference_lines: int
    """Number of lines of the profile that it is compared with."""
    differences: tuple[Difference, ...]
    """All measures that both profiles have, those that drift first, by their PSI."""

    @property
    def drifting(self) -> list[Difference]:
        """Measures that drift, the largest difference first."""
        return [difference for difference in self.differences if difference.drifts]

    @property
    def size(self) -> Literal["none", "moderate", "large"]:
        """Size of the largest difference."""
        drifting = self.drifting
        if not drifting:
            return "none"
        return "large" if drifting[0].psi >= LARGE_PSI else "moderate"

    def in_words(self) -> str:
        """Return the result as one line for users."""
        drifting = self.drifting
        if not drifting:
            return f"the text is like the {self.against}"
        names = ", ".join(f"{words_of(one.measure)} (PSI {one.psi:.2f})" for one in drifting[:3])
        others = f" and {len(drifting) - 3} more" if len(drifting) > 3 else ""
        return f"the text differs from the {self.against}: {names}{others}"


class _Test(NamedTuple):
    statistic: float
    p_value: float


def compare(job: Profile, reference: Profile, against: Literal["training text", "earlier jobs"]) -> Drift:
    """Compare the profile of a job with another one, in all measures that both have.

    Args:
        job: profile of the job.
        reference: profile of the text to compare with.
        against: name of that text.
    """
    measured: list[tuple[str, Literal["Kolmogorov-Smirnov", "chi-square"], _Test, float]] = []
    for measure in EDGES:
        own, other = job.counts(measure), reference.counts(measure)
        if own.sum() and other.sum():
            index = population_stability(_grouped(own, other), _grouped(other, other))
            measured.append((measure, "Kolmogorov-Smirnov", kolmogorov_smirnov(own, other), index))
    for name in CATEGORIES:
        own, other = _aligned(job.categories.get(name, {}), reference.categories.get(name, {}))
        if own.sum() and other.sum():
            measured.append((name, "chi-square", chi_square(own, other), population_stability(own, other)))
    adjusted = holm([test.p_value for _, _, test, _ in measured])
    differences = [
        Difference(
            measure=measure,
            test=kind,
            statistic=round(test.statistic, 4),
            p_value=p_value,
            psi=round(index, 4),
            drifts=p_value < ALPHA and index >= LEAST_PSI,
        )
        for (measure, kind, test, index), p_value in zip(measured, adjusted, strict=True)
    ]
    differences.sort(key=lambda one: (not one.drifts, -one.psi))
    return Drift(against=against, lines=job.lines, reference_lines=reference.lines, differences=tuple(differences))


def population_stability(own: Counts, other: Counts) -> float:
    """Return the population stability index of two histograms with the same bins.

    Half a line is added to each bin, because the index of an empty bin would be infinite (Jeffreys 1946).
    """
    first, second = own + _PSEUDO_COUNT, other + _PSEUDO_COUNT
    p, q = first / first.sum(), second / second.sum()
    return float(((p - q) * np.log(p / q)).sum())


def kolmogorov_smirnov(own: Counts, other: Counts) -> _Test:
    """Return the largest difference of two cumulative histograms, and its two-sided p-value.

    The p-value is the asymptotic one (Smirnov 1948), as by `scipy.stats.ks_2samp`, which takes the values themselves.
    """
    own_lines, other_lines = int(own.sum()), int(other.sum())
    statistic = float(np.abs(own.cumsum() / own_lines - other.cumsum() / other_lines).max())
    effective = own_lines * other_lines / (own_lines + other_lines)
    return _Test(statistic, float(kolmogorov(math.sqrt(effective) * statistic)))


def chi_square(own: Counts, other: Counts) -> _Test:
    """Return Cramér's V of two rows of counts, and the p-value of the test that they have one distribution.

    It is the chi-square test. Names of which a row expects fewer than five lines are counted as one (Cochran 1954). If
    even these together are fewer, chi-square would take a single line for proof: they get a binomial test, and the
    smaller of the two p-values is doubled.
    """
    table = np.stack([own, other])
    table = table[:, table.sum(axis=0) > 0]
    expected = table.sum(axis=0) * min(table.sum(axis=1)) / table.sum()
    rare = expected < _LEAST_EXPECTED
    frequent, rest = table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)
    cramers_v = math.sqrt(_chi_square_statistic(table) / table.sum())
    if not rare.any() or expected[rare].sum() >= _LEAST_EXPECTED:
        both = np.concatenate([frequent, rest], axis=1) if rare.any() else frequent
        return _Test(cramers_v, _chi_square_p_value(both))
    count, share = int(rest[0, 0]), float(rest.sum() / table.sum())
    tails = bdtr(count, int(own.sum()), share), bdtrc(count - 1, int(own.sum()), share) if count else 1.0
    return _Test(cramers_v, min(1.0, 2 * min(_chi_square_p_value(frequent), 2 * float(min(tails)))))


def _chi_square_statistic(table: Counts) -> float:
    if table.shape[1] < 2:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / table.sum()
    return float(((table - expected) ** 2 / expected).sum())


def _chi_square_p_value(table: Counts) -> float:
    if table.shape[1] < 2 or not table.sum(axis=1).all():
        return 1.0
    return float(chdtrc(table.shape[1] - 1, _chi_square_statistic(table)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for their number (Holm 1979): the chance of any false one stays below the level."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = highest
    return adjusted


def _grouped(counts: Counts, reference: Counts) -> Counts:
    """Return a histogram with its bins joined to about ten groups that are equally full in the reference.

    Bins that the reference lacks are groups of their own: otherwise a value that is new would be among values that are
    frequent.
    """
    share = (reference.cumsum() - reference / 2) / max(int(reference.sum()), 1)
    groups = np.floor(share * _GROUPS).astype(np.int64)
    empty = reference == 0
    below, above = empty & (reference.cumsum() == 0), empty & (reference.cumsum() == reference.sum())
    groups[below], groups[above] = -1, _GROUPS
    _, numbers = np.unique(groups, return_inverse=True)
    return np.bincount(numbers, counts).astype(np.int64)


def _aligned(own: Mapping[str, int], other: Mapping[str, int]) -> tuple[Counts, Counts]:
    """Return the counts of two profiles by the same names, in the order of the names."""
    names = sorted({*own, *other})
    return (
        np.array([own.get(name, 0) for name in names], np.int64),
        np.array([other.get(name, 0) for name in names], np.int64),
    )
