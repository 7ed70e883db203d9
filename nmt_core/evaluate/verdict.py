"""What the gate before production says: pydantic only, so that whoever shows a verdict needs nothing else."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

BY_HAND = "`nmt promote MODEL/VERSION --why ...` promotes a model by hand"
_MOST_DIGITS = 6
CheckKind = Literal["quality", "parity", "speed", "contamination", "sentences", "history"]


class Check(BaseModel):
    """One condition of promotion, with the numbers that decided it."""

    model_config = ConfigDict(frozen=True)
    kind: CheckKind
    name: str
    """The condition in words, such as "BLEU of newstest2014 is significantly better"."""
    test_set: str = ""
    """Empty if the condition is about no test set."""
    metric: str = ""
    champion: float | None = None
    """The champion's value, in the metric's unit; None if there is no champion, or it has none."""
    challenger: float | None = None
    difference: float | None = None
    """Challenger less champion."""
    low: float | None = None
    """Lower end of the confidence interval of the difference."""
    high: float | None = None
    """Upper end of it."""
    level: float = 0.95
    """Of that interval: 1 less the level of significance that decides."""
    p_value: float | None = None
    """Below 1 - level if and only if the interval excludes 0."""
    passed: bool
    why: str
    """One sentence that a person understands, numbers and remedy included."""


class Verdict(BaseModel):
    """Whether a challenger takes the champion's place, and why."""

    model_config = ConfigDict(frozen=True)
    model_name: str
    challenger: str
    """Version number."""
    champion: str = ""
    """Version number; empty if there was none."""
    promoted: bool
    reason: str
    """The verdict in one sentence."""
    checks: tuple[Check, ...] = ()

    @property
    def failed(self) -> list[Check]:
        """The conditions that do not hold."""
        return [check for check in self.checks if not check.passed]


def number(value: float, sign: str = "") -> str:
    """A value with two digits, or as many more as it takes to tell it from 0; zero has no minus.

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
    """An interval of differences."""
    return f"{number(low, '+')} to {number(high, '+')}"


def percent(level: float) -> str:
    """A level of confidence, such as 95% or 99.9%."""
    return f"{round(100 * level, 4):g}%"
