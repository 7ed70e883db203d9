"""Measure the ranges of a model's numbers while it translates real text, for int8 and fp16 with their limited ranges.

Letters in names of tensors: as in `models/kernels.py`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from nmt_core.config import SearchConfig
from nmt_core.models.decoding import plain_kernels
from nmt_core.models.kernels import Kernels
from nmt_core.models.layers import split_heads
from nmt_core.models.model import TranslationModel
from nmt_core.models.recurrent.model import RecurrentModel
from nmt_core.search.batches import batches_by_length, most_sources
from nmt_core.search.beam import n_best
from nmt_core.search.torch_step import TorchStepper

_LEAST_SCALE = 1e-6


@dataclass
class Ranges:
    """Ranges of a model's numbers."""

    inputs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Smallest and greatest number that a layer has read, by the layer's name. The range always contains 0."""
    cache: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Greatest magnitudes of keys and of values, by the number of the decoder's layer."""
    magnitudes: dict[str, float] = field(default_factory=dict)
    """Greatest magnitude of each tensor, by a name such as "the output of encoder.0.feed_forward.inner"."""

    def see(self, what: str, x: Tensor) -> None:
        """Record the greatest magnitude of a tensor under a name."""
        least, greatest = x.aminmax()
        size = max(-float(least), float(greatest))
        self.magnitudes[what] = float(np.maximum(self.magnitudes.get(what, 0.0), size))  # keeps NaN

    def greatest(self) -> tuple[str, float]:
        """Return the name and the magnitude of the largest tensor. NaN counts as larger than anything."""
        return max(self.magnitudes.items(), key=largest_or_nan)

    def of_input(self, name: str) -> tuple[Tensor, Tensor]:
        """Return the scale and the zero point (uint8) of a layer's input, both scalars."""
        least, greatest = self.inputs[name]
        scale = max((greatest - least) / 255, _LEAST_SCALE)
        return torch.tensor(scale), torch.tensor(round(-least / scale), dtype=torch.uint8)

    def of_cache(self, number: int) -> tuple[Tensor, Tensor]:
        """Return the scales of a layer's keys and values, each [1], for integers from -127 to 127."""
        key, value = (torch.tensor([max(magnitude / 127, _LEAST_SCALE)]) for magnitude in self.cache[number])
        return key, value


def largest_or_nan(one: tuple[str, float]) -> tuple[bool, float]:
    """Return the key by which a name with a number is sorted. NaN is larger than any number."""
    return one[1] != one[1], one[1]


def name_of(layer: nn.Linear) -> str:
    """Return the name of a layer in `Ranges.inputs`."""
    return str(layer.name_in_model)


def calibrate(
    model: TranslationModel,
    sources: Sequence[Sequence[int]],
    search: SearchConfig,
    target_start: Sequence[int] = (),
) -> Ranges:
    """Translate text and record how large the numbers get.

    Args:
        model: the model, in fp32. For a recurrent model, only `magnitudes` are recorded.
        sources: ids of real text, of the kind that will be translated. At least one sentence.
        search: the search with which to translate it.
        target_start: ids with which every translation starts.
    """
    ranges = Ranges()
    kernels = plain_kernels(model) if isinstance(model, RecurrentModel) else _Observer(model, ranges)
    stepper = TorchStepper(model, kernels)
    with _magnitudes_seen(model, ranges):
        most = most_sources(search, model.vocab_size)
        for batch in batches_by_length(list(map(len, sources)), search.batch_tokens, most):
            n_best(stepper, [sources[place] for place in batch], search, [target_start] * len(batch))
    return ranges


@contextmanager
def _magnitudes_seen(model: TranslationModel, ranges: Ranges) -> Iterator[None]:
    """Record inputs and outputs of linear layers and norms during the block. The input of a norm is a residual sum."""

    def see(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ranges.see(f"the input of {layer.name_in_model}", inputs[0])
        ranges.see(f"the output of {layer.name_in_model}", output)

    for name, module in model.named_modules():
        module.name_in_model = name
    layers = [module for module in model.modules() if isinstance(module, nn.Linear | nn.LayerNorm)]
    handles = [layer.register_forward_hook(see) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Observer(Kernels):
    """Plain PyTorch kernels that record what hooks do not see: ranges, joint projections, and attention logits."""

    def __init__(self, model: TranslationModel, ranges: Ranges) -> None:
        super().__init__(model)
        self.ranges = ranges
        self.projection = ""
        """Name of the layer that ran last. Before attention, it is the layer that made the queries."""

    def linear(self, x: Tensor, *layers: nn.Linear) -> Tensor:
        name = name_of(layers[0])
        least, greatest = self.ranges.inputs.get(name, (0.0, 0.0))
        self.ranges.inputs[name] = (min(least, float(x.min())), max(greatest, float(x.max())))
        self.projection = name
        output = super().linear(x, *layers)
        if len(layers) > 1:
            self.ranges.see(f"the output of {name}", output)
        return output

    def attend_source(self, projected: Tensor, mask_BS: Tensor) -> Tensor:
        q_BSP, k_BSP, _ = self.split(projected)
        self._see_logits(q_BSP, split_heads(k_BSP, self.num_heads).transpose(1, 2))
        return super().attend_source(projected, mask_BS)

    def attend_past(self, number: int, projected: Tensor, past: Sequence[Tensor], position_1: Tensor) -> list[Tensor]:
        _, key_R1P, value_R1P = self.split(projected)
        key, value = self.ranges.cache.get(number, (0.0, 0.0))
        self.ranges.cache[number] = max(key, float(key_R1P.abs().max())), max(value, float(value_R1P.abs().max()))
        attended_R1P, *present = super().attend_past(number, projected, past, position_1)
        self._see_logits(self.split(projected)[0], present[0])
        return [attended_R1P, *present]

    def attend_cross(self, q_BKP: Tensor, cross: Sequence[Tensor], mask_BS: Tensor) -> Tensor:
        self._see_logits(q_BKP, cross[0])
        return super().attend_cross(q_BKP, cross, mask_BS)

    def _see_logits(self, q_BTP: Tensor, k_BHSD: Tensor) -> None:
        """Record attention logits before they are divided, since some operators divide later than others."""
        q_BHTD = split_heads(q_BTP, self.num_heads).transpose(1, 2)
        self.ranges.see(f"the attention logits of {self.projection}", q_BHTD @ k_BHSD.transpose(-2, -1))
