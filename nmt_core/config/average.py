"""`average`: checkpoints that become the model."""

from typing import Literal

from pydantic import Field

from nmt_core.config.section import Section


class AverageConfig(Section):
    """Averaging of checkpoints (Vaswani et al. 2017, section 6.1).

    If the best of the checkpoints has a lower dev loss than their average, that checkpoint becomes the model instead.
    """

    strategy: Literal["last", "best", "ema"] = "last"
    """Weights to use. `last`: the mean of the last checkpoints. `best`: the mean of the checkpoints with the lowest dev
    loss. `ema`: the exponential moving average that training keeps with `train.ema_decay`."""
    checkpoints: int = Field(5, ge=1)
    """Number of checkpoints to average. It has no effect with ema."""
