"""How large the numbers get that int8 graphs keep as integers, measured while a model translates real text.

Letters in names of tensors: R rows, P width of all heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from nmt_core.config import SearchConfig
from nmt_core.models.kernels import Kernels
from nmt_core.models.model import TranslationModel
from nmt_core.search.beam import beam_search
from nmt_core.search.step import batches_by_length
from nmt_core.search.torch_step import TorchStepper

_LEAST_SCALE = 1e-6


@dataclass
class Ranges:
    """What was seen."""

    inputs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Least and greatest number that a layer has read, by its name in the model; 0 lies between them."""
    cache: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Greatest magnitude of keys and of values, by the decoder's layer."""

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
    """The name by which `Ranges.inputs` knows a layer. An export traces copies of layers, so identity will not do."""
    return str(layer.name_in_model)


def calibrate(model: TranslationModel, sources: Sequence[Sequence[int]], search: SearchConfig) -> Ranges:
    """Translate, and see how large the numbers get.

    Args:
        model: in fp32.
        sources: ids of real text, of the kind that will be translated.
        search: with which to translate it.
    """
    observer = _Observer(model)
    stepper = TorchStepper(model, observer)
    for batch in batches_by_length([len(ids) for ids in sources], search.batch_tokens):
        beam_search(stepper, [sources[place] for place in batch], search)
    return observer.ranges


class _Observer(Kernels):
    """Plain PyTorch that takes down the ranges."""

    def __init__(self, model: TranslationModel) -> None:
        super().__init__(model)
        self.ranges = Ranges()
        for name, module in model.named_modules():
            module.name_in_model = name

    def linear(self, x: Tensor, *layers: nn.Linear) -> Tensor:
        name = name_of(layers[0])
        least, greatest = self.ranges.inputs.get(name, (0.0, 0.0))
        self.ranges.inputs[name] = (min(least, float(x.min())), max(greatest, float(x.max())))
        return super().linear(x, *layers)

    def attend_past(self, number: int, projected: Tensor, past: Sequence[Tensor], position_1: Tensor) -> list[Tensor]:
        _, key_R1P, value_R1P = self.split(projected)
        key, value = self.ranges.cache.get(number, (0.0, 0.0))
        self.ranges.cache[number] = max(key, float(key_R1P.abs().max())), max(value, float(value_R1P.abs().max()))
        return super().attend_past(number, projected, past, position_1)
