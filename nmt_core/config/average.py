"""`average`: checkpoints that become the model."""

from typing import Literal

from pydantic import Field, model_validator

from nmt_core.config.section import Section, later


class AverageConfig(Section):
    """Averaging of checkpoints (Vaswani et al. 2017, section 6.1).

    If the best of the checkpoints has a lower dev loss than their average, that checkpoint becomes the model instead.
    """

    strategy: Literal["last", "best", "ema"] = "last"
    """Weights to use. `last`: the mean of the last checkpoints. `best`: the mean of the checkpoints with the lowest dev
    loss. `ema`: the exponential moving average that training keeps with `train.ema_decay`."""
    checkpoints: int = Field(5, ge=1)
    """Number of checkpoints to average. It has no effect with ema."""
    ensemble: int = later(0, ge=0, le=64)
    """Number of checkpoints that are exported together, as one model that translates by the mean of their
    probabilities (Sutskever et al. 2014, section 3.6). `strategy` chooses them. Translation takes as many times as
    long. 0 exports the average alone."""

    @model_validator(mode="after")
    def _is_an_ensemble(self) -> "AverageConfig":
        if self.ensemble == 1:
            raise ValueError("ensemble=1 is one checkpoint: set it to 2 or more, or to 0 and checkpoints to 1")
        if self.ensemble and self.strategy == "ema":
            raise ValueError(
                f"ensemble={self.ensemble} needs several checkpoints, and strategy=ema has one average: set strategy "
                "to last or best"
            )
        return self
