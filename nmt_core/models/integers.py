"""Convert a model's weights to 8-bit integers. Letters in names of tensors: O outputs and I inputs of a layer."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.models.model import TranslationModel

_WEIGHT_LEVELS = 127
"""Number of levels on either side of 0."""


def integers_of(weight_OI: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights [O, I] as symmetric integers (int8), with a scale for each row [O].

    A CPU without VNNI adds the products of two neighbouring 8-bit numbers in 16 bits, and saturates. So the magnitudes
    of two neighbours add up to at most 128: nothing overflows. Little precision is lost, because two of a row's
    greatest weights are rarely neighbours.
    """
    size_OI = weight_OI.abs()
    greatest_O = (size_OI + F.pad(size_OI[:, 1:], (0, 1))).amax(dim=1)
    scale_O = greatest_O.clamp_min(torch.finfo().tiny * _WEIGHT_LEVELS) / _WEIGHT_LEVELS
    return (weight_OI / scale_O[:, None]).round().to(torch.int8), scale_O


def rounded_weights(model: TranslationModel) -> list[Tensor]:
    """Return the weights of which `quantized` makes integers. Tied weights are listed once."""
    return list({id(weight): weight for _, weight in _weights(model)}.values())


def quantized(model: TranslationModel) -> dict[tuple[str, ...], tuple[Tensor, Tensor]]:
    """Return integers and the scales of their rows, by the names of the layers to which the rows belong."""
    weights = dict(_weights(model))
    side_by_side = tuple(f"decoder.{number}.cross_attention.key_value" for number in range(len(model.decoder)))
    by_weight: dict[tuple[Tensor, ...], tuple[Tensor, Tensor]] = {}  # a tied matrix has several names
    integers: dict[tuple[str, ...], tuple[Tensor, Tensor]] = {}
    for names in (*((name,) for name in weights), side_by_side):
        parts = tuple(weights[name] for name in names)
        if parts not in by_weight:
            by_weight[parts] = integers_of(torch.cat(parts).detach())
        integers[names] = by_weight[parts]
    return integers


def _weights(model: TranslationModel) -> Iterator[tuple[str, Tensor]]:
    """Yield the matrix of each layer that maps or looks up rows, by the name of the layer."""
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, nn.Linear | nn.Embedding):
            yield name, module.weight
