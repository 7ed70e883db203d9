"""What a precision, or the shortlist, loses in BLEU: whether that is more than chance, and more than is allowed."""

from pydantic import BaseModel, ConfigDict

from nmt_core.config import ExportConfig
from nmt_core.evaluate.significance import compare
from nmt_core.evaluate.verdict import interval, number
from nmt_core.scoring import SentenceStatistics

_SAMPLES = 1_000
_ALPHA = 0.05


class Change(BaseModel):
    """A difference of BLEU on the same sentences."""

    model_config = ConfigDict(frozen=True)
    difference: float
    """Less than 0: a loss."""
    low: float
    """Lower end of its 95% interval, by paired bootstrap resampling."""
    high: float
    """Upper end of it; below 0, the loss is significant."""

    def __str__(self) -> str:
        return f"{number(self.difference, '+')} (95% interval {interval(self.low, self.high)})"


def change(before: SentenceStatistics, after: SentenceStatistics) -> Change:
    """Compare two translations of the same sentences."""
    found = compare(before, after, _SAMPLES, alpha=_ALPHA)
    return Change(difference=found.difference, low=found.low, high=found.high)


def too_much(found: Change, config: ExportConfig) -> str:
    """Why a loss is too much, or nothing.

    A loss counts if it is significant and beyond `max_bleu_loss`: what a thousand sentences move by themselves refuses
    nothing. On few sentences nothing is significant, so there is a bound that counts in any case.
    """
    loss, bound = -found.difference, max(config.bleu_loss_bound, config.max_bleu_loss)
    if not loss <= bound:  # not(<=) refuses NaN as well
        return f"export.bleu_loss_bound={bound:g} is allowed at most"
    if found.high < 0 and loss > config.max_bleu_loss:
        return f"that is significant, and export.max_bleu_loss={config.max_bleu_loss:g} is allowed"
    return ""
