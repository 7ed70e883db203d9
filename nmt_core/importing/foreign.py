"""Describe a model of another program in one form for all formats, and put its weights into a Transformer.

What the other model has and the Transformer lacks is folded into weights. Its positions become a table (`positions:
learned`). The token that its decoder reads first gives its embedding to <s>. Embeddings that are not scaled are divided
by sqrt(d_model), and if the output shares them, the last norm is multiplied by it.

Letters: see `nmt_core.models`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt_core.config import LanguagesConfig, ModelConfig, SearchConfig
from nmt_core.errors import ModelError
from nmt_core.importing.vocabulary import ZEROS, Vocabulary
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.pretokenize import Pretokenizers

Array = npt.NDArray[np.float32]
_NEVER = -100.0
"""Added to the logit of a piece that no translation may contain. Another piece has the same logit without it, or a
logit of 0, so its probability rounds to 0."""


@dataclass(frozen=True)
class ForeignModel:
    """Model of another program."""

    place: Path
    """File of the weights, for messages."""
    config: ModelConfig
    tensors: Mapping[str, Array]
    """Weights of the layers, by the names of `transformers` without `model.`, such as
    `encoder.layers.0.self_attn.q_proj.weight`. Matrices are [out, in]."""
    source_VM: Array
    target_VM: Array
    output_VM: Array | None
    """Output matrix, or None if the target embeddings are the output matrix."""
    bias_V: Array | None
    """Bias of the output. None means none."""
    positions_LM: Array
    scales_embeddings: bool
    """True if embeddings are multiplied by sqrt(d_model)."""
    source: Vocabulary
    target: Vocabulary
    """Vocabulary of the target. It is the same object as `source` if the vocabulary is joint."""
    starts: Pretokenizers
    """Pieces that come before sources and targets, and characters that only the other side knows."""
    languages: LanguagesConfig
    search: SearchConfig

    @property
    def is_joint(self) -> bool:
        """True if both sides have one vocabulary."""
        return self.source is self.target


def transformer_of(foreign: ForeignModel) -> Transformer:
    """Return a Transformer in evaluation mode that computes what the other model computes.

    Raises:
        ModelError: a weight is missing, or has another shape than its configuration says.
    """
    config, source_size = foreign.config, None if foreign.is_joint else len(foreign.source.rows)
    model = Transformer(config, len(foreign.target.rows), config.max_positions, source_size)
    weights = _embeddings(foreign) | {"positions_LM": torch.from_numpy(foreign.positions_LM)}
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(layers):
            weights |= _layer(foreign, side, number)
        if config.norm == "pre":
            weights |= _affine(foreign, f"{side}_norm", f"{side}.layer_norm")
    if not foreign.scales_embeddings and config.tied_embeddings != "none":
        last = "decoder_norm" if config.norm == "pre" else f"decoder.{layers - 1}.feed_forward_frame.norm"
        for name in (f"{last}.weight", f"{last}.bias"):
            weights[name] = weights[name] * math.sqrt(config.d_model)
    with torch.no_grad():
        for name, parameter in model.state_dict(keep_vars=True).items():
            _require_shape(foreign, name, weights[name], parameter)
            parameter.copy_(weights[name])
    return model.eval().requires_grad_(False)


def _embeddings(foreign: ForeignModel) -> dict[str, Tensor]:
    scale = 1.0 if foreign.scales_embeddings else foreign.config.d_model**-0.5
    source_VM, target_VM = (
        _in_order(matrix, vocabulary) * scale
        for matrix, vocabulary in ((foreign.source_VM, foreign.source), (foreign.target_VM, foreign.target))
    )
    is_tied = foreign.output_VM is None
    output_VM = target_VM if is_tied else _in_order(foreign.output_VM, foreign.target)
    bias_V = np.zeros(len(foreign.target.rows), np.float32)
    if foreign.bias_V is not None:
        bias_V += _in_order(foreign.bias_V, foreign.target)
    bias_V += np.where(foreign.target.is_spare, np.float32(_NEVER), np.float32(0))
    arrays = {
        "source_embedding.weight": source_VM,
        "target_embedding.weight": target_VM,
        "output.weight": output_VM,
        "output.bias": bias_V,
    }
    return {name: torch.from_numpy(np.ascontiguousarray(array, np.float32)) for name, array in arrays.items()}


def _in_order(array: Array | None, vocabulary: Vocabulary) -> Array:
    """Return the rows of a matrix in the order of a vocabulary."""
    assert array is not None
    rows = np.array(vocabulary.rows)
    ordered: Array = np.array(array[rows])
    ordered[rows == ZEROS] = 0
    return ordered


def _layer(foreign: ForeignModel, side: str, number: int) -> dict[str, Tensor]:
    """Return the weights of a layer by their names in the Transformer."""
    ours, theirs = f"{side}.{number}", f"{side}.layers.{number}"
    found = _attention(foreign, f"{ours}.self_attention.query_key_value", f"{theirs}.self_attn", "qkv")
    found |= _affine(foreign, f"{ours}.self_attention.output", f"{theirs}.self_attn.out_proj")
    found |= _affine(foreign, f"{ours}.self_attention_frame.norm", f"{theirs}.self_attn_layer_norm")
    if side == "decoder":
        found |= _attention(foreign, f"{ours}.cross_attention.query", f"{theirs}.encoder_attn", "q")
        found |= _attention(foreign, f"{ours}.cross_attention.key_value", f"{theirs}.encoder_attn", "kv")
        found |= _affine(foreign, f"{ours}.cross_attention.output", f"{theirs}.encoder_attn.out_proj")
        found |= _affine(foreign, f"{ours}.cross_attention_frame.norm", f"{theirs}.encoder_attn_layer_norm")
    found |= _affine(foreign, f"{ours}.feed_forward.inner", f"{theirs}.fc1")
    found |= _affine(foreign, f"{ours}.feed_forward.outer", f"{theirs}.fc2")
    return found | _affine(foreign, f"{ours}.feed_forward_frame.norm", f"{theirs}.final_layer_norm")


def _attention(foreign: ForeignModel, ours: str, theirs: str, projections: str) -> dict[str, Tensor]:
    """Return projections side by side, as one matrix and one bias."""
    parts = [_affine(foreign, one, f"{theirs}.{one}_proj") for one in projections]
    return {
        f"{ours}.{kind}": torch.cat([part[f"{one}.{kind}"] for one, part in zip(projections, parts, strict=True)])
        for kind in ("weight", "bias")
    }


def _affine(foreign: ForeignModel, ours: str, theirs: str) -> dict[str, Tensor]:
    return {f"{ours}.{kind}": _tensor(foreign, f"{theirs}.{kind}") for kind in ("weight", "bias")}


def _tensor(foreign: ForeignModel, name: str) -> Tensor:
    if name not in foreign.tensors:
        raise ModelError(f"{foreign.place}: has no weight {name}, which its configuration needs: copy the model again")
    return torch.from_numpy(foreign.tensors[name])


def _require_shape(foreign: ForeignModel, name: str, weight: Tensor, parameter: Tensor) -> None:
    if weight.shape != parameter.shape:
        raise ModelError(
            f"{foreign.place}: {name} would have the shape {list(weight.shape)}, and {list(parameter.shape)} by its "
            "configuration: the files belong to different models; copy the model again"
        )


def sinusoids(length: int, width: int, *, first: int, steps: int) -> Array:
    """Return sines in the first half of the columns and cosines in the second, [length, width].

    Args:
        length: number of positions.
        width: number of columns, an even number.
        first: number of the first position.
        steps: number of steps of the exponent from 1 to 1/10,000: half the width (Vaswani et al. 2017, section 3.5), or
            one less, as in Tensor2Tensor, fairseq and Marian.
    """
    frequencies = np.exp(np.arange(width // 2) * (-math.log(10_000.0) / steps))
    angles = np.arange(first, first + length)[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
