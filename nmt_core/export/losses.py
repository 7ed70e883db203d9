"""Judge the BLEU that a precision or the shortlist loses: is it more than chance, and more than is allowed?"""

from pydantic import BaseModel, ConfigDict

from nmt_core.config import ExportConfig
from nmt_core.evaluate.significance import compare
from nmt_core.evaluate.verdict import interval, number
from nmt_core.scoring import SentenceStatistics

_SAMPLES = 1_000
_ALPHA = 0.05


class Change(BaseModel):
    """Difference of BLEU on the same sentences."""

    model_config = ConfigDict(frozen=True)
    difference: float
    """Difference of BLEU. A negative number is a loss."""
    low: float
    """Lower end of the 95% interval of the difference, by paired bootstrap resampling."""
    high: float
    """Upper end of the interval. Below 0, the loss is significant."""

    def __str__(self) -> str:
        return f"{number(self.difference, '+')} (95% interval {interval(self.low, self.high)})"


def change(before: SentenceStatistics, after: SentenceStatistics) -> Change:
    """Return the change of BLEU between two translations of the same sentences."""
    comparison = compare(before, after, _SAMPLES, alpha=_ALPHA)
    return Change(difference=comparison.difference, low=comparison.low, high=comparison.high)


def too_much(change: Change, config: ExportConfig) -> str | None:
    """Return the reason why a loss is too large, or None.

    A loss counts if it is significant and exceeds `max_bleu_loss`, so that the noise of a thousand sentences refuses
    nothing. On few sentences no loss is significant, so `bleu_loss_bound` counts in any case.
    """
    loss, bound = -change.difference, max(config.bleu_loss_bound, config.max_bleu_loss)
    if not loss <= bound:  # not(<=) refuses NaN as well
        return f"the loss exceeds export.bleu_loss_bound={bound:g}"
    if change.high < 0 and loss > config.max_bleu_loss:
        return f"the loss is significant and exceeds export.max_bleu_loss={config.max_bleu_loss:g}"
    return None
