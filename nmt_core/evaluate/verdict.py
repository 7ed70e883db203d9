"""What the gate before production says: pydantic only, so that whoever shows a verdict needs nothing else."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

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
    """Lower end of the 95% confidence interval of the difference."""
    high: float | None = None
    """Upper end of it."""
    p_value: float | None = None
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
