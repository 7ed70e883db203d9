"""Any model cut in two for decoding, and what the halves hand to each other.

A graph of the encoder gives the tensors `cross`, which belong to a sentence and stay the same, and then, if the decoder
does not start from nothing, the first `past`. A graph of a step takes both and gives the next `past`, row by row. With
a shortlist it also takes what a graph of the output gives once a batch.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from nmt_core.models.incremental import EncoderGraph, OutputGraph, StepGraph
from nmt_core.models.kernels import Kernels
from nmt_core.models.model import TranslationModel
from nmt_core.models.recurrent.incremental import RnnEncoderGraph, RnnKernels, RnnStepGraph
from nmt_core.models.recurrent.model import RecurrentModel
from nmt_core.models.transformer import Transformer


@dataclass(frozen=True)
class Held:
    """A tensor that is handed over."""

    name: str
    shape: tuple[int | str, ...]
    """A size that varies goes by its name."""
    dtype: torch.dtype

    def zeros(self, sizes: dict[str, int], device: torch.device | None = None) -> Tensor:
        """A tensor like it, with such sizes by name."""
        shape = [size if isinstance(size, int) else sizes[size] for size in self.shape]
        return torch.zeros(shape, dtype=self.dtype, device=device)

    @property
    def varying(self) -> dict[int, str]:
        """Names of the sizes that vary, by dimension."""
        return {place: size for place, size in enumerate(self.shape) if isinstance(size, str)}


@dataclass(frozen=True)
class Graphs:
    """The two halves."""

    encoder: nn.Module
    """Source ids [B, S] to a list of tensors."""
    step: nn.Module
    """As `incremental.StepGraph`."""
    output: nn.Module
    """As `incremental.OutputGraph`."""
    cross: tuple[Held, ...]
    past: tuple[Held, ...]
    has_first: bool
    """Whether the encoder gives the first past; without, it is one of no positions."""
    writes_in_place: bool
    """As `Kernels.writes_in_place`."""


def plain_kernels(model: TranslationModel) -> Kernels:
    """What a model is decoded with in PyTorch."""
    return RnnKernels(model) if isinstance(model, RecurrentModel) else Kernels(model)


def graphs_of(kernels: Kernels) -> Graphs:
    """The halves of the model that these kernels hold, computed with them."""
    if isinstance(kernels, RnnKernels):
        return _of_recurrent(kernels)
    model = cast(Transformer, kernels.model)
    heads, of_layer = kernels.num_heads, dict(zip(("key", "value"), model.config.head_widths, strict=True))
    names = [(f"{what}_{layer}", of_layer[what]) for layer in range(len(model.decoder)) for what in of_layer]
    return Graphs(
        EncoderGraph(kernels),
        StepGraph(kernels),
        OutputGraph(kernels),
        tuple(
            Held(name, ("sentences", heads, "source_positions", width), model.output.weight.dtype)
            for name, width in names
        ),
        tuple(Held(name, ("rows", heads, "past_positions", width), kernels.cache_dtype) for name, width in names),
        has_first=False,
        writes_in_place=kernels.writes_in_place,
    )


def _of_recurrent(kernels: RnnKernels) -> Graphs:
    model = cast(RecurrentModel, kernels.model)
    dtype, hidden = model.output.weight.dtype, model.config.rnn.hidden_size
    return Graphs(
        RnnEncoderGraph(kernels),
        RnnStepGraph(kernels),
        OutputGraph(kernels),
        tuple(Held(name, shape, dtype) for name, shape in model.cross_shapes.items()),
        tuple(Held(name, ("rows", hidden), dtype) for name in model.state_names),
        has_first=True,
        writes_in_place=False,
    )
