"""Compute the learning rate of each update from the recipe alone (Vaswani et al. 2017, section 5.3).

This module imports no torch, so that the schedule can be shown before training.
"""

from nmt_core.config import TrainConfig


def learning_rate(update: int, config: TrainConfig, d_model: int) -> float:
    """Return the learning rate of an update, counted from 1.

    It is scale * d_model^-0.5 * min(update^-0.5, update * warmup_updates^-1.5), or the scale itself with the constant
    schedule.
    """
    if config.learning_rate_schedule == "constant":
        return config.learning_rate_scale
    rate = min(update**-0.5, update * config.warmup_updates**-1.5)
    return float(config.learning_rate_scale * d_model**-0.5 * rate)
