"""Define rules for element-wise functions."""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt_core.export.recording.draft import Draft, NotRecordableError, Recorded, Size, onnx_type
from nmt_core.export.recording.table import Function, Table

Operand = Tensor | Size | float

RULES = Table()

FLOATS = {torch.float32, torch.float16}
_INTEGERS = {torch.int64, torch.int32, torch.int8, torch.uint8}


# One operand.


def _unary(op: str, *functions: Function) -> None:
    @RULES.rule(*functions)
    def write(draft: Draft, x: Recorded, inplace: Literal[False] = False) -> str:
        return draft.node(op, x)


_unary("Relu", F.relu)
_unary("Tanh", torch.tanh)
_unary("Sigmoid", torch.sigmoid)
_unary("Log", Tensor.log)
_unary("Exp", Tensor.exp)


@RULES.rule(F.gelu)
def _gelu(draft: Draft, x: Recorded, approximate: Literal["none"] = "none") -> str:
    return draft.node("Gelu", x)


@RULES.rule(F.silu)
def _silu(draft: Draft, x: Recorded, inplace: Literal[False] = False) -> str:
    return draft.node("Mul", x, draft.node("Sigmoid", x))


@RULES.rule(F.dropout)
def _dropout(draft: Draft, x: Recorded, p: float, training: Literal[False], inplace: Literal[False] = False) -> str:
    return x.value


@RULES.rule(Tensor.__invert__)
def _invert(draft: Draft, x: Recorded) -> str:
    require_type(x.scalar_type, {torch.bool})
    return draft.node("Not", x)


@RULES.rule(Tensor.to)
def _to(draft: Draft, x: Recorded, dtype: torch.dtype) -> str:
    return in_type(draft, x, dtype)


@RULES.rule(Tensor.float)
def _float(draft: Draft, x: Recorded) -> str:
    return in_type(draft, x, torch.float32)


# Two operands: tensors, sizes or numbers. PyTorch determines their common type.


def require_type(dtype: torch.dtype, allowed: set[torch.dtype]) -> None:
    """Refuse a type in which ONNX computes something else, or that it does not support."""
    if dtype not in allowed:
        raise NotRecordableError(f"its rule supports the types {sorted(map(str, allowed))}, not {dtype}")


def type_of(x: Tensor) -> torch.dtype:
    """Return the type of a recorded tensor or of a constant."""
    return x.scalar_type if isinstance(x, Recorded) else x.dtype


def shape_of(x: Tensor) -> Sequence[int]:
    """Return the shape of a constant, or of a recorded tensor in the first example."""
    return x.examples[0].shape if isinstance(x, Recorded) else x.shape


def _meeting_type(x: Operand, y: Operand) -> torch.dtype:
    """Return the type in which PyTorch computes with two operands."""
    for size, tensor in ((x, y), (y, x)):
        if isinstance(size, Size) and isinstance(tensor, Tensor) and not shape_of(tensor):
            raise NotRecordableError(
                "its rule turns a size into a tensor [1], so that the result would be [1] and not []"
            )
    one, other = (operand.examples[0] if isinstance(operand, Recorded | Size) else operand for operand in (x, y))
    return torch.result_type(one, other)


def in_type(draft: Draft, x: Operand, dtype: torch.dtype) -> str:
    """Return the name of an operand, converted to a type."""
    if not isinstance(x, Tensor | Size):
        return draft.number(x, dtype)
    name, before = (draft.size(x), torch.int64) if isinstance(x, Size) else (draft.name(x), type_of(x))
    return name if before == dtype else draft.node("Cast", name, to=onnx_type(dtype))


def _binary(op: str, allowed: set[torch.dtype], *functions: Function) -> None:
    @RULES.rule(*functions)
    def write(draft: Draft, x: Operand, y: Operand) -> str:
        dtype = _meeting_type(x, y)
        require_type(dtype, allowed)
        return draft.node(op, in_type(draft, x, dtype), in_type(draft, y, dtype))


_binary("Add", FLOATS | _INTEGERS, Tensor.add)
_binary("Sub", FLOATS | _INTEGERS, Tensor.sub)
_binary("Mul", FLOATS | _INTEGERS, Tensor.mul)
_binary("And", {torch.bool}, Tensor.__and__)
_binary("Or", {torch.bool}, Tensor.__or__)
_binary("LessOrEqual", FLOATS, Tensor.le)
_binary("Min", FLOATS, torch.minimum)
_binary("Equal", {*FLOATS, *_INTEGERS, torch.bool}, Tensor.__eq__)


@RULES.rule(Tensor.__rsub__)
def _rsub(draft: Draft, y: Operand, x: Operand) -> str:
    name: str = RULES[Tensor.sub](draft, x, y)
    return name


@RULES.rule(Tensor.ne)
def _ne(draft: Draft, x: Operand, y: Operand) -> str:
    return draft.node("Not", RULES[Tensor.__eq__](draft, x, y))


@RULES.rule(torch.div, Tensor.div)
def _div(draft: Draft, x: Operand, y: Operand, *, rounding_mode: Literal["trunc"] | None = None) -> str:
    """Divide. ONNX truncates a quotient of integers. PyTorch does so only with `rounding_mode="trunc"`."""
    dtype = _meeting_type(x, y)
    require_type(dtype, FLOATS if rounding_mode is None else _INTEGERS)
    return draft.node("Div", in_type(draft, x, dtype), in_type(draft, y, dtype))


@RULES.rule(torch.fmod)
def _fmod(draft: Draft, x: Operand, y: Operand) -> str:
    dtype = _meeting_type(x, y)
    return draft.node("Mod", in_type(draft, x, dtype), in_type(draft, y, dtype), fmod=1)


@RULES.rule(torch.where)
def _where(draft: Draft, condition: Recorded, x: Operand, y: Operand) -> str:
    dtype = _meeting_type(x, y)
    return draft.node("Where", condition, in_type(draft, x, dtype), in_type(draft, y, dtype))


@RULES.rule(Tensor.masked_fill)
def _masked_fill(draft: Draft, x: Recorded, mask: Recorded, value: float) -> str:
    return draft.node("Where", mask, draft.number(value, x.scalar_type), x)
