"""Define the verdict of the gate before production. This module imports only pydantic, for programs that show it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

BY_HAND = "`nmt promote MODEL/VERSION --why ...` promotes a model by hand"
_MOST_DIGITS = 6
CheckKind = Literal["quality", "parity", "speed", "contamination", "sentences", "history", "shadow"]


class Check(BaseModel):
    """Check of one condition of promotion, with the numbers that decided it."""

    model_config = ConfigDict(frozen=True)
    kind: CheckKind
    name: str
    """Condition in words, such as "BLEU of newstest2014 is significantly better"."""
    test_set: str = ""
    """Name of the test set. Empty if the condition does not concern a test set."""
    pair: str = ""
    """Pair of languages that the condition concerns. Empty if it concerns all, or the model has one pair."""
    metric: str = ""
    """Metric of the values. Empty if there are no values."""
    champion: float | None = None
    """Value of the champion, in the metric's unit. None if there is no champion, or it has no value."""
    challenger: float | None = None
    """Value of the challenger, in the metric's unit. None if it has no value."""
    difference: float | None = None
    """Value of the challenger minus value of the champion."""
    low: float | None = None
    """Lower end of the confidence interval of the difference."""
    high: float | None = None
    """Upper end of the confidence interval of the difference."""
    level: float = 0.95
    """Level of the confidence interval: 1 minus the level of significance."""
    p_value: float | None = None
    """Two-sided p-value of the difference. It is below 1 - level if and only if the interval excludes 0."""
    is_better: bool = False
    """True if the challenger is significantly better than the champion."""
    passed: bool
    """True if the condition holds."""
    why: str
    """Reason in one sentence, with numbers and remedy."""


class Verdict(BaseModel):
    """Verdict of the gate: the challenger replaces the champion or not, with reasons."""

    model_config = ConfigDict(frozen=True)
    model_name: str
    """Name of the registered model."""
    challenger: str
    """Version number of the challenger."""
    champion: str = ""
    """Version number of the champion before. Empty if there was none."""
    promoted: bool
    """True if the challenger becomes champion."""
    pairs: tuple[str, ...] = ()
    """Pairs of languages for which the challenger becomes the champion, though it does not for all."""
    reason: str
    """Verdict in one sentence."""
    checks: tuple[Check, ...] = ()
    """All checks of the gate."""

    @property
    def failed(self) -> list[Check]:
        """Checks that did not pass."""
        return [check for check in self.checks if not check.passed]


def number(value: float, sign: str = "") -> str:
    """Return a value with two decimals, or with as many as it needs to differ from 0. Zero has no minus sign.

    Args:
        value: the number.
        sign: "+" to write a sign before positive numbers too.
    """
    value = round(value, _MOST_DIGITS) + 0.0  # -0.0 becomes 0.0
    digits = 2
    while value and round(value, digits) == 0:
        digits += 1
    return f"{value:{sign}.{digits}f}" if value else "0.00"


def interval(low: float, high: float) -> str:
    """Return an interval of differences as text."""
    return f"{number(low, '+')} to {number(high, '+')}"


def percent(level: float) -> str:
    """Return a level of confidence as text, such as 95% or 99.9%."""
    return f"{round(100 * level, 4):g}%"
