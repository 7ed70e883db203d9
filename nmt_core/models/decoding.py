"""Split any model in two graphs for decoding, and describe the tensors that one graph passes to the other.

The graph of the encoder returns the tensors `cross`, which belong to a sentence and never change. If the decoder has a
first state, it returns this as the first `past`. The graph of a step takes both, and returns the next `past`, row by
row. With a shortlist, a third graph computes once a batch what the steps need of the output matrix.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from nmt_core.models.ensemble import (
    Ensemble,
    EnsembleEncoderGraph,
    EnsembleKernels,
    EnsembleOutputGraph,
    EnsembleStepGraph,
    members_of,
)
from nmt_core.models.incremental import DecodingStep, EncoderGraph, OutputGraph, StepGraph
from nmt_core.models.kernels import Kernels
from nmt_core.models.model import TranslationModel
from nmt_core.models.recurrent.incremental import RnnEncoderGraph, RnnKernels, RnnStepGraph
from nmt_core.models.recurrent.model import RecurrentModel
from nmt_core.models.transformer import Transformer


@dataclass(frozen=True)
class Held:
    """Tensor that one graph passes to another."""

    name: str
    shape: tuple[int | str, ...]
    """Sizes of the dimensions. A size that varies is given by its name."""
    dtype: torch.dtype

    def zeros(self, sizes: dict[str, int], device: torch.device | None = None) -> Tensor:
        """Return a tensor of zeros, with the given sizes for the names."""
        shape = [size if isinstance(size, int) else sizes[size] for size in self.shape]
        return torch.zeros(shape, dtype=self.dtype, device=device)

    @property
    def varying(self) -> dict[int, str]:
        """Names of the sizes that vary, by dimension."""
        return {place: size for place, size in enumerate(self.shape) if isinstance(size, str)}


@dataclass(frozen=True)
class Graphs:
    """Graphs of a model for decoding."""

    encoder: nn.Module
    """Graph that maps source ids [B, S] to a list of tensors."""
    step: nn.Module
    """Graph of one step (see `incremental.DecodingStep`)."""
    output: nn.Module
    """Graph of the output matrix for a shortlist (see `incremental.OutputGraph`)."""
    cross: tuple[Held, ...]
    past: tuple[Held, ...]
    has_first: bool
    """True if the encoder returns the first past. Otherwise the first past has no positions."""
    writes_in_place: bool
    """True if a step writes into the past that it gets (see `Kernels.writes_in_place`)."""


def plain_kernels(model: TranslationModel) -> Kernels | EnsembleKernels:
    """Return the kernels that decode a model in PyTorch."""
    if isinstance(model, Ensemble):
        return EnsembleKernels([_plain_kernels(member) for member in members_of(model)])
    return _plain_kernels(model)


def _plain_kernels(model: TranslationModel) -> Kernels:
    return RnnKernels(model) if isinstance(model, RecurrentModel) else Kernels(model)


def graphs_of(kernels: Kernels | EnsembleKernels) -> Graphs:
    """Return the graphs of the model that these kernels hold. They compute with the kernels."""
    if isinstance(kernels, EnsembleKernels):
        return _of_ensemble([graphs_of(member) for member in kernels.members])
    if isinstance(kernels, RnnKernels):
        return _of_recurrent(kernels)
    model = cast(Transformer, kernels.model)
    heads, of_layer = kernels.num_heads, dict(zip(("key", "value"), model.config.head_widths, strict=True))
    dtype = model.output.weight.dtype
    names = [(f"{what}_{layer}", of_layer[what]) for layer in range(len(model.decoder)) for what in of_layer]
    cross = tuple(Held(name, ("sentences", heads, "source_positions", width), dtype) for name, width in names)
    past = tuple(Held(name, ("rows", heads, "past_positions", width), kernels.cache_dtype) for name, width in names)
    if is_recurrent := bool(model.recurrent_layers):
        past = tuple(
            Held(f"state_{layer}", ("rows", model.config.d_model), dtype) for layer in range(len(model.decoder))
        )
    return Graphs(
        EncoderGraph(kernels),
        StepGraph(kernels),
        OutputGraph(kernels),
        cross,
        past,
        has_first=is_recurrent,
        writes_in_place=kernels.writes_in_place and not is_recurrent,
    )


def _of_ensemble(members: list[Graphs]) -> Graphs:
    first = members[0]
    cross, past = (
        tuple(
            replace(held, name=f"{held.name}_of_{number}")
            for number, graphs in enumerate(members)
            for held in getattr(graphs, kind)
        )
        for kind in ("cross", "past")
    )
    return Graphs(
        EnsembleEncoderGraph([graphs.encoder for graphs in members], len(first.cross)),
        EnsembleStepGraph([cast(DecodingStep, graphs.step) for graphs in members]),
        EnsembleOutputGraph([graphs.output for graphs in members]),
        cross,
        past,
        has_first=first.has_first,
        writes_in_place=first.writes_in_place,
    )


def _of_recurrent(kernels: RnnKernels) -> Graphs:
    model = cast(RecurrentModel, kernels.model)
    dtype = model.output.weight.dtype
    return Graphs(
        RnnEncoderGraph(kernels),
        RnnStepGraph(kernels),
        OutputGraph(kernels),
        tuple(Held(name, shape, dtype) for name, shape in model.cross_shapes.items()),
        tuple(Held(name, ("rows", size), dtype) for name, size in model.state_sizes.items()),
        has_first=True,
        writes_in_place=False,
    )
