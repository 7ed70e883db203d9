"""How large a model's numbers get while it translates real text: int8 and fp16 can hold so much and no more.

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
from nmt_core.search.beam import beam_search
from nmt_core.search.torch_step import TorchStepper

_LEAST_SCALE = 1e-6


@dataclass
class Ranges:
    """What was seen."""

    inputs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Least and greatest number that a layer has read, by its name in the model; 0 lies between them."""
    cache: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Greatest magnitude of keys and of values, by the decoder's layer."""
    magnitudes: dict[str, float] = field(default_factory=dict)
    """Greatest magnitude of what layers read and give, by what it is; "the output of encoder.0.feed_forward.inner"."""

    def see(self, what: str, x: Tensor) -> None:
        """Take down a magnitude."""
        least, greatest = x.aminmax()
        size = max(-float(least), float(greatest))
        self.magnitudes[what] = float(np.maximum(self.magnitudes.get(what, 0.0), size))  # keeps NaN

    def greatest(self) -> tuple[str, float]:
        """What got largest, and how large; NaN is larger than anything."""
        return max(self.magnitudes.items(), key=lambda one: (one[1] != one[1], one[1]))

    def of_input(self, name: str) -> tuple[Tensor, Tensor]:
        """Scale and zero point (uint8) of what a layer reads, both scalars."""
        least, greatest = self.inputs[name]
        scale = max((greatest - least) / 255, _LEAST_SCALE)
        return torch.tensor(scale), torch.tensor(round(-least / scale), dtype=torch.uint8)

    def of_cache(self, number: int) -> tuple[Tensor, Tensor]:
        """Scales of a layer's keys and values, each [1], for integers from -127 to 127."""
        key, value = (torch.tensor([max(magnitude / 127, _LEAST_SCALE)]) for magnitude in self.cache[number])
        return key, value


def name_of(layer: nn.Linear) -> str:
    """The name by which `Ranges.inputs` knows a layer."""
    return str(layer.name_in_model)


def calibrate(model: TranslationModel, sources: Sequence[Sequence[int]], search: SearchConfig) -> Ranges:
    """Translate, and see how large the numbers get.

    Args:
        model: in fp32. Of a recurrent one, only `magnitudes` are taken down.
        sources: ids of real text, of the kind that will be translated; not none.
        search: with which to translate it.
    """
    ranges = Ranges()
    kernels = plain_kernels(model) if isinstance(model, RecurrentModel) else _Observer(model, ranges)
    stepper = TorchStepper(model, kernels)
    with _magnitudes_seen(model, ranges):
        most = most_sources(search, model.vocab_size)
        for batch in batches_by_length(list(map(len, sources)), search.batch_tokens, most):
            beam_search(stepper, [sources[place] for place in batch], search)
    return ranges


@contextmanager
def _magnitudes_seen(model: TranslationModel, ranges: Ranges) -> Iterator[None]:
    """Take down what linear layers and norms read and give, for a while. What a norm reads is a residual sum."""

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
    """Plain PyTorch that takes down what layers do not show: ranges, several layers at once, and attention."""

    def __init__(self, model: TranslationModel, ranges: Ranges) -> None:
        super().__init__(model)
        self.ranges = ranges
        self.projection = ""
        """The layer that was the last to read: before attention, the one that made the queries."""

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
        """Of attention, as they are before they are divided: some operators divide later than others."""
        q_BHTD = split_heads(q_BTP, self.num_heads).transpose(1, 2)
        self.ranges.see(f"the attention logits of {self.projection}", q_BHTD @ k_BHSD.transpose(-2, -1))
