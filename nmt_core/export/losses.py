"""Judge the BLEU that a precision or the shortlist loses: is it more than chance, and more than is allowed?"""

from pydantic import BaseModel, ConfigDict

from nmt_core.config import ExportConfig
from nmt_core.evaluate.significance import compare
from nmt_core.evaluate.verdict import interval, number
from nmt_core.scoring import SentenceStatistics

_SAMPLES = 1_000
_ALPHA = 0.05
_ALL_OF_BLEU = 100.0


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


def unseen(before: float, config: ExportConfig) -> str | None:
    """Return the reason why no loss against this BLEU could be seen, or None.

    Nothing can be lost of a BLEU of 0, which says nothing about a model that is worse. If any loss is accepted, none
    has to be seen.
    """
    if before > 0 or config.max_bleu_loss >= _ALL_OF_BLEU:
        return None
    return (
        "so no loss could be seen: train longer, give dev sentences whose translations have four words or more, or set "
        f"export.max_bleu_loss={_ALL_OF_BLEU:g} to accept any loss"
    )


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
