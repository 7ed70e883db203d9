"""Result of a challenger that translated a share of a job's lines beside the champion."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict
from scipy.special import bdtr

from nmt_core.search.translation import WHOLE

GOOD = WHOLE | {"empty"}
"""Statuses of translations with which nothing is known to be wrong."""


class ShadowResult(BaseModel):
    """Comparison of a challenger with the champion on the same lines of a job."""

    model_config = ConfigDict(frozen=True)
    model: str
    """Name of the challenger."""
    version: str
    sha256: str
    """SHA-256 of the `config.json` of its bundle."""
    share: float
    """Share of the lines that it was to translate."""
    problem: str = ""
    """Reason why there is no comparison. Empty if there is one."""
    lines: int = 0
    """Number of lines that both translated."""
    champion_statuses: Mapping[str, int] = {}
    """Number of these lines by the status of the champion's translation."""
    challenger_statuses: Mapping[str, int] = {}
    """Number of these lines by the status of the challenger's translation."""
    champion_bad_alone: int = 0
    """Number of lines with a bad status of the champion's translation alone."""
    challenger_bad_alone: int = 0
    """Number of lines with a bad status of the challenger's translation alone."""
    p_value: float = 1.0
    """Two-sided p-value of the difference between these two numbers (McNemar's exact test)."""
    agreement: float = 100.0
    """Mean chrF between the two translations of a line, 0 to 100."""
    identical: int = 0
    """Number of lines that both translate to the same text."""
    champion_score: float | None = None
    """Mean score of the champion's translations in nats. None if the job has no scores."""
    challenger_score: float | None = None
    """Mean score of the challenger's translations in nats. Scores of two models are not on one scale."""
    speed: float | None = None
    """Target tokens per second of the challenger over the champion's, on some of these lines. None if not measured."""

    def in_words(self) -> str:
        """Return the result as one line for users."""
        name = f"shadow {self.model} version {self.version}"
        if self.problem:
            return f"{name}: not compared: {self.problem}"
        if not self.lines:
            return f"{name}: no line was drawn: raise --share"
        bad = self.bad_lines
        speed = f", {self.speed:.2f} times the speed" if self.speed else ""
        return (
            f"{name}: {bad[1]:,} of {self.lines:,} lines with a bad status, the champion {bad[0]:,} "
            f"(p={self.p_value:.2g}); agreement {self.agreement:.1f} chrF{speed}"
        )

    @property
    def bad_lines(self) -> tuple[int, int]:
        """Numbers of lines with a bad status of the champion's and of the challenger's translations."""
        champion, challenger = (
            sum(count for status, count in statuses.items() if status not in GOOD)
            for statuses in (self.champion_statuses, self.challenger_statuses)
        )
        return champion, challenger


def sign_test(one: int, other: int) -> float:
    """Return the two-sided p-value of two numbers of lines that only one of two models translates badly.

    It is McNemar's exact test: without a difference, each such line is the one's or the other's with equal probability.
    """
    total = one + other
    return min(1.0, 2 * float(bdtr(min(one, other), total, 0.5))) if total else 1.0
