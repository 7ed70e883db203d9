"""Compute the first half of the feed-forward network, a matrix product with ReLU, and its gradients.

It is max(0, x W1 + b1) (Vaswani et al. 2017, section 3.3). Its activations are four times as wide as the model, so what
counts on a GPU is how often they are read and written. Forward writes them once: ReLU is part of the matrix product.
Backward reads them and their gradient once, for the gradient before ReLU and for the sum that is the bias' gradient.

No sum depends on the order of threads (no atomics), so gradients are bit-identical in each run.

Letters: see `nmt_core.models`; in addition F counts the columns of activations (`d_ff`), and P counts programs. In
kernels, R and F count the rows and columns of a tile.
"""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op, triton_op

from nmt_core.models.cuda.launch import launchable

_TILES = 8
"""Number of tiles, one below the other, that a program reads."""
_ROWS, _COLUMNS = 8, 512
_WARPS = 4


def linear_relu(x_M: Tensor, weight_FM: Tensor, bias_F: Tensor) -> Tensor:
    """Compute max(0, x W^T + b), differentiably.

    Args:
        x_M: input, [..., M].
        weight_FM: weight, of the same dtype.
        bias_F: bias, of the same dtype.

    Returns:
        Activations, [..., F], of the same dtype. They are rounded once.
    """
    activated_NF = _linear_relu(x_M.reshape(-1, x_M.shape[-1]), weight_FM, bias_F)
    return cast(Tensor, activated_NF).view(*x_M.shape[:-1], -1)


@custom_op("nmt::linear_relu", mutates_args=())
def _linear_relu(x_NM: Tensor, weight_FM: Tensor, bias_F: Tensor) -> Tensor:
    # In an operator of its own: the compiler would take the product and ReLU apart again.
    return torch._addmm_activation(bias_F, x_NM, weight_FM.t())


@_linear_relu.register_fake
def _(x_NM: Tensor, weight_FM: Tensor, bias_F: Tensor) -> Tensor:
    return x_NM.new_empty((x_NM.shape[0], weight_FM.shape[0]))  # `len` would be one number for all shapes


@triton_op("nmt::relu_backward", mutates_args=())
def _relu_backward(gradient_NF: Tensor, activated_NF: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient before ReLU [N, F], and its sum over the tokens, fp32 [F]."""
    tokens, width = activated_NF.shape
    before_NF = torch.empty_like(activated_NF)
    programs = triton.cdiv(tokens, _TILES * _ROWS)
    sum_PF = torch.empty((programs, width), dtype=torch.float32, device=activated_NF.device)
    launchable(_backward_kernel)[(programs, triton.cdiv(width, _COLUMNS))](
        gradient_NF, activated_NF, before_NF, sum_PF, tokens, width, _TILES, _ROWS, _COLUMNS, num_warps=_WARPS
    )
    return before_NF, sum_PF.sum(0)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    x_NM, weight_FM, _ = inputs
    ctx.save_for_backward(x_NM, weight_FM, output)


def _differentiate(ctx: Any, gradient_NF: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x_NM, weight_FM, activated_NF = ctx.saved_tensors
    before_NF, sum_F = _relu_backward(gradient_NF.contiguous(), activated_NF)
    return before_NF @ weight_FM, before_NF.t() @ x_NM, sum_F.to(before_NF.dtype)


_linear_relu.register_autograd(_differentiate, setup_context=_keep)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(  # type: ignore[no-untyped-def]
    gradient, activated, before, summed, tokens, width, TILES: tl.constexpr, R: tl.constexpr, F: tl.constexpr
):
    """Compute some tiles, one below the other, and the sums of their columns."""
    program = tl.program_id(0)
    column_F = tl.program_id(1) * F + tl.arange(0, F)
    is_column_F = column_F < width
    sum_RF = tl.zeros([R, F], tl.float32)
    for tile in range(TILES):
        row_R = (program * TILES + tile) * R + tl.arange(0, R)
        is_inside_RF = (row_R < tokens)[:, None] & is_column_F[None]
        place_RF = row_R.to(tl.int64)[:, None] * width + column_F[None]
        activated_RF = tl.load(activated + place_RF, mask=is_inside_RF, other=0.0)
        gradient_RF = tl.load(gradient + place_RF, mask=is_inside_RF, other=0.0)
        gradient_RF = tl.where(activated_RF > 0, gradient_RF, 0.0)
        tl.store(before + place_RF, gradient_RF, mask=is_inside_RF)
        sum_RF += gradient_RF.to(tl.float32)
    tl.store(summed + program * width + column_F, tl.sum(sum_RF, 0), mask=is_column_F)
