"""Rows of the embeddings and the output matrix for pieces that a vocabulary was extended by.

Weights of the shorter vocabulary are loaded into a model with the longer one. The older rows stay as they are. A new
row is the mean of the rows of the older pieces that spelled its piece. A new token of a language is the mean of the
older tokens. A piece without such rows is drawn from a normal distribution with the mean and the deviation of the older
rows in each dimension (Hewitt 2021, "Initializing new word embeddings for pretrained language models", with a diagonal
covariance). So no new piece takes much probability from the older ones at first. The first updates can be limited to
the new rows, so that their first, large gradients do not change what the model has learned.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from nmt_core.config import Side
from nmt_core.models.model import TranslationModel
from nmt_core.tokenizer.extend import Extension

_MATRICES: dict[str, Side] = {
    "source_embedding.weight": "source",
    "target_embedding.weight": "target",
    "output.weight": "target",
}
"""Names of the parameters with one row for each piece, and the side of their vocabulary. Tied ones have one name."""

Extensions = Mapping[Side, Extension]


def load_extended(model: TranslationModel, weights: Path, extensions: Extensions, seed: int) -> None:
    """Load weights of the vocabularies that the model's vocabularies extend.

    Args:
        model: model with the extended vocabularies.
        weights: file of weights of the same model with the older vocabularies.
        extensions: extension of the vocabulary of each side. A side without one has the same vocabulary.
        seed: seed of the rows that are drawn.
    """
    tensors, generator = load_file(weights), torch.Generator().manual_seed(seed)
    for name, side in _MATRICES.items():
        if name in tensors and side in extensions:
            tensors[name] = torch.cat([tensors[name], new_rows(tensors[name], extensions[side], generator)])
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # a tied parameter is listed once, as in the file
            parameter.copy_(tensors[name])


def new_rows(older_VM: Tensor, extension: Extension, generator: torch.Generator) -> Tensor:
    """Return the initial rows of the pieces that a vocabulary was extended by, [new pieces, M].

    Args:
        older_VM: rows of the older pieces.
        extension: extension of the vocabulary.
        generator: generator of the rows that are drawn, on the CPU.
    """
    drawn_CM = torch.empty(len(extension.cuts), older_VM.shape[1]).normal_(generator=generator)
    rows_CM = older_VM.mean(0) + older_VM.std(0) * drawn_CM
    for number, cut in enumerate(extension.cuts):
        if cut:
            rows_CM[number] = older_VM[list(cut)].mean(0)
    return rows_CM


class NewRows:
    """Limit of a model's gradients to the new rows.

    Args:
        model: model of the training. Its parameters may be shards.
        extensions: extension of the vocabulary of each side that has one.
    """

    def __init__(self, model: TranslationModel, extensions: Extensions) -> None:
        self._model = model
        self._extensions = extensions
        self._masks: dict[str, Tensor] = {}

    def keep_only_their_gradients(self) -> None:
        """Set the gradients of all older rows to zero, and remove the gradients of all other parameters.

        An optimizer leaves a parameter without a gradient as it is, its moments and the count of its steps included. In
        a row whose gradients have all been zero, Adam and Adadelta make steps of zero.
        """
        for name, parameter in self._model.named_parameters():
            side = _MATRICES.get(name)
            extension = self._extensions.get(side) if side else None
            if not extension:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.mul_(self._mask(name, parameter.grad, extension.size))

    def _mask(self, name: str, gradient: Tensor, size: int) -> Tensor:
        """Return 1 for new rows and 0 for older ones, spread over the processes as the gradient is."""
        if name not in self._masks:
            mask_V1 = (torch.arange(gradient.shape[0], device=gradient.device) >= size).to(gradient.dtype)[:, None]
            if isinstance(gradient, DTensor):
                mask_V1 = distribute_tensor(mask_V1, gradient.device_mesh, gradient.placements, src_data_rank=None)
            self._masks[name] = mask_V1
        return self._masks[name]
