"""Define rules for functions that reshape or create tensors, and answers about shapes and types."""

import math
from collections.abc import Sequence
from types import EllipsisType
from typing import Literal

import torch
from torch import Tensor

from nmt_core.export.recording.draft import Draft, NotRecordableError, Recorded, Size, Whole
from nmt_core.export.recording.numbers import require_type, shape_of
from nmt_core.export.recording.table import Function, Table

Part = int | slice | EllipsisType | None
"""One part of an index, between two commas."""

RULES = Table()
ANSWERS = Table()
"""Rules that write no operators and return a value to Python code."""

_END = torch.iinfo(torch.int64).max


# Shapes.


@RULES.rule(Tensor.view)
def _view(draft: Draft, x: Recorded, *sizes: Whole) -> str:
    """Reshape. ONNX takes 0 for a size that stays in its place and -1 for the rest: such sizes need no operators."""
    places = [tuple(example.shape[place] for example in x.examples) for place in range(x.rank)]
    shape: list[Whole] = [
        0 if isinstance(size, Size) and places[place : place + 1] == [size.examples] else size
        for place, size in enumerate(sizes)
    ]
    varying = [place for place, size in enumerate(shape) if isinstance(size, Size)]
    if len(varying) == 1 and not any(isinstance(size, int) and size == -1 for size in shape):
        shape[varying[0]] = -1
    return draft.node("Reshape", x, draft.shape(shape))


@RULES.rule(Tensor.flatten)
def _flatten(draft: Draft, x: Recorded, start_dim: int = 0, end_dim: int = -1) -> str:
    start, end = start_dim % x.rank, end_dim % x.rank + 1
    merged = [size for size in x.sizes[start:end] if isinstance(size, int)]
    product = math.prod(merged) if len(merged) == end - start else -1
    return _view(draft, x, *x.sizes[:start], product, *x.sizes[end:])


@RULES.rule(Tensor.squeeze)
def _squeeze(draft: Draft, x: Recorded, dim: int) -> str:
    if examples := {example.shape[dim] for example in x.examples} - {1}:
        raise NotRecordableError(f"its rule removes dimensions of size 1, not of {min(examples)}")
    return draft.node("Squeeze", x, draft.number([dim]))


@RULES.rule(Tensor.transpose)
def _transpose(draft: Draft, x: Recorded, dim0: int, dim1: int) -> str:
    order = list(range(x.rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return draft.node("Transpose", x, perm=order)


@RULES.rule(Tensor.permute)
def _permute(draft: Draft, x: Recorded, *dims: int) -> str:
    return draft.node("Transpose", x, perm=[dim % x.rank for dim in dims])


@RULES.rule(Tensor.expand)
def _expand(draft: Draft, x: Recorded, *sizes: Whole) -> str:
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise NotRecordableError("its rule needs a number for each size, not -1 for a size that stays")
    return draft.node("Expand", x, draft.shape(sizes))


@RULES.rule(Tensor.index_copy)
def _index_copy(draft: Draft, x: Recorded, dim: Literal[0], index: Recorded, source: Recorded) -> str:
    return draft.node("ScatterND", x, draft.node("Unsqueeze", index, draft.number([1])), source)


@RULES.rule(Tensor.__getitem__)
def _getitem(draft: Draft, x: Tensor, index: Part | tuple[Part, ...] | Recorded) -> str:
    """Write one operator for all slices, then one for each single index, then one for all new dimensions."""
    if isinstance(index, Recorded):
        require_type(index.scalar_type, {torch.int64})
        return draft.node("Gather", x, index, axis=0)
    parts = index if isinstance(index, tuple) else (index,)
    rank = len(shape_of(x))
    if Ellipsis in parts:
        rest = rank - sum(part is not None and part is not Ellipsis for part in parts)
        here = parts.index(Ellipsis)
        parts = (*parts[:here], *[slice(None)] * rest, *parts[here + 1 :])
    cuts, picked, new = list[tuple[Whole, Whole, int, int]](), list[tuple[int, int]](), list[int]()
    axis = 0
    for part in parts:
        if part is None:
            new.append(axis - len(picked) + len(new))
            continue
        if isinstance(part, slice):
            start, stop, step = (part.start, part.stop, part.step)
            if not start is stop is step is None:
                cuts.append((0 if start is None else start, _END if stop is None else stop, axis, step or 1))
        elif isinstance(part, int):
            picked.append((axis, part))
        axis += 1
    name = draft.name(x)
    if cuts:
        name = draft.node("Slice", name, *(draft.shape(column) for column in zip(*cuts, strict=True)))
    for axis, place in reversed(picked):
        name = draft.node("Gather", name, draft.number(place), axis=axis)
    return draft.node("Unsqueeze", name, draft.number(new)) if new else name


# New tensors with sizes that vary.


@RULES.rule(torch.arange)
def _arange(draft: Draft, end: Size, *, device: torch.device | None = None) -> str:
    return draft.node("Range", draft.number(0), draft.node("Squeeze", draft.size(end)), draft.number(1))


@RULES.rule(torch.ones)
def _ones(draft: Draft, size: Sequence[Whole], dtype: torch.dtype, device: torch.device) -> str:
    return draft.node("Expand", draft.number(1, dtype), draft.shape(size))


@RULES.rule(Tensor.new_zeros)
def _new_zeros(draft: Draft, x: Recorded, *size: Whole) -> str:
    return draft.node("Expand", draft.number(0, x.scalar_type), draft.shape(size))


@RULES.rule(torch.zeros_like)
def _zeros_like(draft: Draft, x: Recorded) -> str:
    return draft.node("Expand", draft.number(0, x.scalar_type), draft.node("Shape", x))


@RULES.rule(Tensor.tril)
def _tril(draft: Draft, x: Recorded, diagonal: int = 0) -> str:
    return draft.node("Trilu", x, *([draft.number(diagonal)] if diagonal else []), upper=0)


# Answers to Python code.


def _getter(name: str) -> Function:
    """Return the function that PyTorch calls to read an attribute of a tensor."""
    getter: Function = getattr(Tensor, name).__get__
    return getter


@ANSWERS.rule(_getter("shape"))
def _shape(draft: Draft, x: Recorded) -> tuple[Whole, ...]:
    return x.sizes


@ANSWERS.rule(_getter("dtype"))
def _dtype(draft: Draft, x: Recorded) -> torch.dtype:
    return x.scalar_type


@ANSWERS.rule(_getter("device"))
def _device(draft: Draft, x: Recorded) -> torch.device:
    return torch.device("cpu")


@ANSWERS.rule(Tensor.dim)
def _dim(draft: Draft, x: Recorded) -> int:
    return x.rank


@ANSWERS.rule(torch.sym_min)
def _sym_min(draft: Draft, a: Whole, b: Whole) -> Whole:
    return a.at_most(b) if isinstance(a, Size) else b.at_most(a) if isinstance(b, Size) else min(a, b)
