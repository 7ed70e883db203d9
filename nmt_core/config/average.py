"""`average`: which checkpoints become the model."""

from typing import Literal

from pydantic import Field

from nmt_core.config.section import Section


class AverageConfig(Section):
    """Averaging of checkpoints (Vaswani et al. 2017, section 6.1); if the best of them alone has a lower dev loss than
    their average, that one goes on."""

    strategy: Literal["last", "best", "ema"] = "last"
    """The mean of the last checkpoints, or of those with the lowest dev loss; or the exponential moving average that
    training keeps with `train.ema_decay`."""
    checkpoints: int = Field(5, ge=1)
    """Checkpoints to average; not used with ema."""
