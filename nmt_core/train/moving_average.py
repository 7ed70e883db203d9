"""Exponential moving average of the weights, kept up while training goes on (Polyak and Juditsky 1992)."""

from collections.abc import Mapping

import torch
from torch import Tensor


class MovingAverage:
    """An average of the weights after each update, of which the last ones count most.

    Args:
        parameters: the weights, or this process' parts of them, by name.
        decay: share of the average that an update leaves.
    """

    def __init__(self, parameters: Mapping[str, Tensor], decay: float) -> None:
        self._parameters = list(parameters.values())
        self._decay = decay
        self.tensors = {name: parameter.detach().clone() for name, parameter in parameters.items()}

    @torch.no_grad()
    def update(self, number: int) -> None:
        """Count the weights after update `number`, from 1; early ones count more, for what was before was random."""
        decay = min(self._decay, (number - 1) / (number + 9))
        for average, parameter in zip(self.tensors.values(), self._parameters, strict=True):
            average.lerp_(parameter, 1 - decay)
