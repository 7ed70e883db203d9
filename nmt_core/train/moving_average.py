"""Maintain an exponential moving average of the weights during training (Polyak and Juditsky 1992)."""

from collections.abc import Mapping

import torch
from torch import Tensor


class MovingAverage:
    """Exponential moving average of the weights over the updates.

    Args:
        parameters: the weights, or this process' parts of them, by name.
        decay: factor on the average at each update.
    """

    def __init__(self, parameters: Mapping[str, Tensor], decay: float) -> None:
        self._parameters = list(parameters.values())
        self._decay = decay
        self.tensors = {name: parameter.detach().clone() for name, parameter in parameters.items()}

    @torch.no_grad()
    def update(self, number: int) -> None:
        """Add the weights after update `number`, counted from 1.

        The decay is smaller in early updates, so that the random initial weights are soon forgotten.
        """
        decay = min(self._decay, (number - 1) / (number + 9))
        for average, parameter in zip(self.tensors.values(), self._parameters, strict=True):
            average.lerp_(parameter, 1 - decay)
