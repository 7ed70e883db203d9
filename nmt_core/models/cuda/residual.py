"""Compute dropout, residual sum and layer norm in one kernel, and their gradients in another.

They are steps of each sub-layer (Vaswani et al. 2017, sections 3.1 and 5.4). Their cost on a GPU is the bytes that they
move. Forward reads two numbers of half precision and writes two, and so does backward: 16 bytes a number, where
separate kernels move three times as many. The mask of dropout is not stored but drawn again.

No sum depends on the order of threads (no atomics), so gradients are bit-identical in each run.

Letters: see `nmt_core.models`; in addition P counts programs. In kernels, M is rounded up to a power of two.
"""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op

from nmt_core.models.cuda.launch import launchable

_DRAWS = 2**16
_ROWS = 16
"""Number of rows of a program that sums the gradients of weight and bias."""
_NUMBERS_PER_THREAD = 8


def normed_residual(
    x_M: Tensor, output_M: Tensor, weight_M: Tensor, bias_M: Tensor, dropout: float, epsilon: float
) -> Tensor:
    """Compute norm(x + dropout(output)) of each row, differentiably.

    Args:
        x_M: input of the sub-layer, [..., M].
        output_M: output of the sub-layer, of the same shape and dtype.
        weight_M: weight of the norm, fp32.
        bias_M: bias of the norm, fp32.
        dropout: probability that a number of the output is zero, rounded to a multiple of 2^-16. Other numbers are
            scaled up.
        epsilon: number that is added to the variance.

    Returns:
        Tensor with the shape and dtype of `x_M`. Sums, means and variances are fp32.
    """
    # One number of PyTorch's own generator, on the device: the host does not wait, and a CUDA graph draws it anew.
    seed_1 = torch.randint(2**31 - 1, (1,), device=x_M.device)
    x_NM, output_NM = (each.reshape(-1, x_M.shape[-1]).contiguous() for each in (x_M, output_M))
    normed_NM, _, _, _ = _forward(x_NM, output_NM, weight_M, bias_M, seed_1, round(dropout * _DRAWS), epsilon)
    return cast(Tensor, normed_NM).view(x_M.shape)


@triton_op("nmt::normed_residual", mutates_args=())
def _forward(
    x_NM: Tensor,
    output_NM: Tensor,
    weight_M: Tensor,
    bias_M: Tensor,
    seed_1: Tensor,
    dropped: int,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the norm and the sum [N, M], and mean and inverse deviation of each row's sum, fp32 [N]."""
    tokens, width = x_NM.shape
    normed_NM, summed_NM = torch.empty_like(x_NM), torch.empty_like(x_NM)
    mean_N, inverse_N = (torch.empty(tokens, dtype=torch.float32, device=x_NM.device) for _ in range(2))
    block = _block(width)
    launchable(_forward_kernel)[(tokens,)](
        x_NM, output_NM, weight_M, bias_M, seed_1, normed_NM, summed_NM, mean_N, inverse_N,
        width, epsilon, dropped, block, num_warps=_warps(block),
    )  # fmt: skip
    return normed_NM, summed_NM, mean_N, inverse_N


@triton_op("nmt::normed_residual_backward", mutates_args=())
def _backward(
    gradient_NM: Tensor,
    summed_NM: Tensor,
    mean_N: Tensor,
    inverse_N: Tensor,
    weight_M: Tensor,
    seed_1: Tensor,
    dropped: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of input and output [N, M], and of weight and bias together, fp32 [2, M]."""
    tokens, width = summed_NM.shape
    dx_NM, doutput_NM = torch.empty_like(summed_NM), torch.empty_like(summed_NM)
    programs, block = triton.cdiv(tokens, _ROWS), _block(width)
    sums_2PM = torch.empty((2, programs, width), dtype=torch.float32, device=summed_NM.device)
    launchable(_backward_kernel)[(programs,)](
        gradient_NM, summed_NM, mean_N, inverse_N, weight_M, seed_1, dx_NM, doutput_NM, sums_2PM,
        tokens, width, dropped, _ROWS, block, num_warps=_warps(block),
    )  # fmt: skip
    return dx_NM, doutput_NM, sums_2PM.sum(1)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, _, weight_M, _, seed_1, ctx.dropped, _ = inputs
    ctx.save_for_backward(*output[1:], weight_M, seed_1)


def _differentiate(ctx: Any, gradient_NM: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    dx_NM, doutput_NM, of_norm_2M = _backward(gradient_NM.contiguous(), *ctx.saved_tensors, ctx.dropped)
    return dx_NM, doutput_NM, of_norm_2M[0], of_norm_2M[1], None, None, None


_forward.register_autograd(_differentiate, setup_context=_keep)


def _block(width: int) -> int:
    """Return the width of a row rounded up to a power of two, and at least the eight numbers drawn at once."""
    return max(_NUMBERS_PER_THREAD, int(triton.next_power_of_2(width)))


def _warps(block: int) -> int:
    """Return the number of warps with which a thread reads 16 bytes of half precision at once."""
    return max(1, block // (32 * _NUMBERS_PER_THREAD))


@triton.jit  # type: ignore[untyped-decorator]
def _kept(  # type: ignore[no-untyped-def]
    seed, row, DROPPED: tl.constexpr, M: tl.constexpr, ROUNDS: tl.constexpr = 7
):
    """Return the factor of each number of a row. Each takes 16 bits, and 128 bits are drawn at once.

    Seven rounds of Philox 4x32 pass all known tests of randomness (Salmon et al. 2011, table 2).
    """
    a, b, c, d = tl.randint4x(seed, row * (M // 8) + tl.arange(0, M // 8), ROUNDS)
    bits = tl.join(tl.join(a, b), tl.join(c, d))
    draws = tl.reshape(tl.join(bits & 0xFFFF, (bits >> 16) & 0xFFFF), [M])
    return tl.where(draws >= DROPPED, 65536 / (65536 - DROPPED), 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _forward_kernel(  # type: ignore[no-untyped-def]
    x, output, weight, bias, seed, normed, summed, mean, inverse,
    width, epsilon, DROPPED: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """Compute one row. The norm is taken of the sum as it is stored, so that backward reads what forward used."""
    row = tl.program_id(0)
    column_M = tl.arange(0, M)
    is_inside_M = column_M < width
    place_M = row.to(tl.int64) * width + column_M
    sum_M = tl.load(output + place_M, mask=is_inside_M, other=0.0).to(tl.float32)
    if DROPPED:
        sum_M *= _kept(tl.load(seed), row, DROPPED, M)
    sum_M += tl.load(x + place_M, mask=is_inside_M, other=0.0).to(tl.float32)
    kept_sum_M = sum_M.to(summed.dtype.element_ty)
    tl.store(summed + place_M, kept_sum_M, mask=is_inside_M)
    sum_M = kept_sum_M.to(tl.float32)
    average = tl.sum(sum_M, 0) / width
    centred_M = tl.where(is_inside_M, sum_M - average, 0.0)
    inverse_deviation = 1.0 / tl.sqrt(tl.sum(centred_M * centred_M, 0) / width + epsilon)
    tl.store(mean + row, average)
    tl.store(inverse + row, inverse_deviation)
    weight_M = tl.load(weight + column_M, mask=is_inside_M, other=0.0).to(tl.float32)
    bias_M = tl.load(bias + column_M, mask=is_inside_M, other=0.0).to(tl.float32)
    normed_M = centred_M * inverse_deviation * weight_M + bias_M
    tl.store(normed + place_M, normed_M.to(normed.dtype.element_ty), mask=is_inside_M)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(  # type: ignore[no-untyped-def]
    gradient, summed, mean, inverse, weight, seed, dx, doutput, sums,
    tokens, width, DROPPED: tl.constexpr, ROWS: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """Compute some rows, one after the other, and their part of the gradients of weight and bias."""
    program = tl.program_id(0)
    column_M = tl.arange(0, M)
    is_inside_M = column_M < width
    weight_M = tl.load(weight + column_M, mask=is_inside_M, other=0.0).to(tl.float32)
    dweight_M = tl.zeros([M], tl.float32)
    dbias_M = tl.zeros([M], tl.float32)
    for row in range(program * ROWS, tl.minimum(program * ROWS + ROWS, tokens)):
        place_M = tl.cast(row, tl.int64) * width + column_M
        gradient_M = tl.load(gradient + place_M, mask=is_inside_M, other=0.0).to(tl.float32)
        sum_M = tl.load(summed + place_M, mask=is_inside_M, other=0.0).to(tl.float32)
        inverse_deviation = tl.load(inverse + row)
        standard_M = tl.where(is_inside_M, (sum_M - tl.load(mean + row)) * inverse_deviation, 0.0)
        dweight_M += gradient_M * standard_M
        dbias_M += gradient_M
        weighted_M = gradient_M * weight_M
        along = tl.sum(weighted_M * standard_M, 0) / width
        dsum_M = (weighted_M - tl.sum(weighted_M, 0) / width - standard_M * along) * inverse_deviation
        tl.store(dx + place_M, dsum_M.to(dx.dtype.element_ty), mask=is_inside_M)
        if DROPPED:
            dsum_M *= _kept(tl.load(seed), row, DROPPED, M)
        tl.store(doutput + place_M, dsum_M.to(doutput.dtype.element_ty), mask=is_inside_M)
    tl.store(sums + program * width + column_M, dweight_M, mask=is_inside_M)
    tl.store(sums + (tl.num_programs(0) + program) * width + column_M, dbias_M, mask=is_inside_M)
