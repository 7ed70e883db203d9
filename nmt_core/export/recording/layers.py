"""Define rules for layers and for functions along a dimension."""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt_core.export.recording.draft import Draft, NotRecordableError, Recorded, Size, Whole
from nmt_core.export.recording.numbers import FLOATS, in_type, require_type, type_of
from nmt_core.export.recording.table import Table

RULES = Table()


# Layers.


@RULES.rule(F.linear)
def _linear(draft: Draft, x: Recorded, weight: Tensor, bias: Tensor | None = None) -> str:
    if x.rank == 2:  # Gemm reads the weight as stored, and so shares it with a tied embedding
        return draft.node("Gemm", x, weight, *([] if bias is None else [bias]), transB=1)
    product = draft.node("MatMul", x, weight.t())
    return product if bias is None else draft.node("Add", product, bias)


@RULES.rule(Tensor.matmul)
def _matmul(draft: Draft, x: Tensor, y: Tensor) -> str:
    return draft.node("MatMul", x, y)


@RULES.rule(F.embedding)
def _embedding(
    draft: Draft,
    ids: Recorded,
    weight: Tensor,
    padding_idx: int | None = None,  # padding_idx and the last two affect gradients only
    max_norm: None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> str:
    return draft.node("Gather", weight, ids, axis=0)


@RULES.rule(F.layer_norm)
def _layer_norm(
    draft: Draft, x: Recorded, normalized_shape: Sequence[int], weight: Tensor, bias: Tensor, eps: float
) -> str:
    return draft.node("LayerNormalization", x, weight, bias, axis=-len(normalized_shape), epsilon=eps)


# Along a dimension.


@RULES.rule(F.softmax)
def _softmax(draft: Draft, x: Recorded, dim: int, _stacklevel: int = 3, dtype: None = None) -> str:
    return draft.node("Softmax", x, axis=dim)


@RULES.rule(Tensor.softmax)
def _softmax_method(draft: Draft, x: Recorded, dim: int) -> str:
    return draft.node("Softmax", x, axis=dim)


@RULES.rule(F.log_softmax)
def _log_softmax(draft: Draft, x: Recorded, dim: int, _stacklevel: int = 3, dtype: None = None) -> str:
    return draft.node("LogSoftmax", x, axis=dim)


@RULES.rule(Tensor.amax)
def _amax(draft: Draft, x: Recorded, dim: int) -> str:
    return draft.node("ReduceMax", x, draft.number([dim]), keepdims=0)


@RULES.rule(Tensor.sum)
def _sum(draft: Draft, x: Recorded, dim: int, *, dtype: torch.dtype | None = None) -> str:
    if dtype is None:
        require_type(x.scalar_type, FLOATS)  # PyTorch sums integers in another type
    return draft.node("ReduceSum", in_type(draft, x, dtype or x.scalar_type), draft.number([dim]), keepdims=0)


@RULES.rule(Tensor.mean)
def _mean(draft: Draft, x: Recorded, dim: int) -> str:
    return draft.node("ReduceMean", x, draft.number([dim]), keepdims=0)


@RULES.rule(Tensor.topk)
def _topk(draft: Draft, x: Recorded, k: Whole, dim: int) -> tuple[str, ...]:
    return draft.nodes_of("TopK", x, draft.size(k), outputs=2, axis=dim)


@RULES.rule(Tensor.gather)
def _gather(draft: Draft, x: Recorded, dim: int, index: Recorded) -> str:
    return draft.node("GatherElements", x, index, axis=dim)


@RULES.rule(torch.cat)
def _cat(draft: Draft, tensors: Sequence[Tensor], dim: int = 0) -> str:
    require_type(type_of(tensors[0]), set(map(type_of, tensors[1:])) or {type_of(tensors[0])})
    return draft.node("Concat", *tensors, axis=dim)


@RULES.rule(torch.stack)
def _stack(draft: Draft, tensors: Sequence[Recorded], dim: int) -> str:
    return draft.node("Concat", *(draft.node("Unsqueeze", one, draft.number([dim])) for one in tensors), axis=dim)


@RULES.rule(torch.split)
def _split(draft: Draft, x: Recorded, split_size_or_sections: Sequence[int], dim: int = 0) -> tuple[str, ...]:
    lengths = split_size_or_sections
    return draft.nodes_of("Split", x, draft.shape(lengths), outputs=len(lengths), axis=dim)


@RULES.rule(Tensor.chunk)
def _chunk(draft: Draft, x: Recorded, chunks: int, dim: int = 0) -> tuple[str, ...]:
    size = x.sizes[dim]
    if isinstance(size, Size) or size % chunks:
        raise NotRecordableError(f"{size!r} may not be divisible by {chunks}")
    return draft.nodes_of("Split", x, outputs=chunks, axis=dim, num_outputs=chunks)


@RULES.rule(F.pad)
def _pad(
    draft: Draft,
    x: Recorded,
    pad: Sequence[int],
    mode: Literal["constant"] = "constant",
    value: float | None = None,
) -> str:
    """Reorder the sides: PyTorch lists them from the last dimension on, ONNX all beginnings and then all ends."""
    sides = [(0, 0)] * (x.rank - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    ends = [side[end] for end in (0, 1) for side in sides]
    return draft.node("Pad", x, draft.number(ends), draft.number(value or 0, x.scalar_type))
