"""Attention over packed streams of short sentences (Vaswani et al. 2017, section 3.2.1).

Flash attention (Dao 2023) cuts its tiles from one sentence each. A sentence of a parallel corpus has some 25 tokens and
a tile has room for 128, so most of the work would be padding. Here tiles are cut from the stream. A tile holds all
sentences in its range, and reads all keys from its first sentence to its last. A mask keeps the sentences apart. Shapes
and the grid depend on the lengths of the streams only, never on the sentences.

No sum depends on the order of threads (no atomics), so gradients are bit-identical in each run.

Letters: see `nmt_core.models`. Here N counts the queries of a stream and S the keys of a stream. In kernels, Q counts
the queries of a tile and K the keys of a tile.
"""

import math
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op

from nmt_core.models.cuda.launch import launchable

_WARPS = 4
_LONG, _SHORT = 64, 32
"""Tokens of a tile whose results are computed, and of a tile that is read for them: the fastest of 20 pairs on an H200,
with heads of 64 columns. Tiles of wider heads are half as long."""
_LOG2_E = math.log2(math.e)


def attend_packed(
    q_NHD: Tensor,
    k_SHD: Tensor,
    v_SHD: Tensor,
    query_sentence_N: Tensor,
    query_starts_B: Tensor,
    key_sentence_S: Tensor,
    key_starts_B: Tensor,
    causal: bool,
) -> Tensor:
    """Compute softmax(q k^T / sqrt(D)) v within each sentence of a packed stream, differentiably.

    Args:
        q_NHD: queries, bf16, fp16 or fp32. D is a power of two, from 16 to 128.
        k_SHD: keys, of the same dtype.
        v_SHD: values, of the same dtype and width.
        query_sentence_N: number of the sentence of each query.
        query_starts_B: start of each sentence of the queries, and end of the last one; int32, one more than sentences.
        key_sentence_S: number of the sentence of each key.
        key_starts_B: start of each sentence of the keys, and end of the last one, like `query_starts_B`.
        causal: True if a query sees no keys after its own place in the stream.

    Returns:
        Attended values, [N, H, D]. They are zeros for a query whose sentence has no keys.
    """
    attended_NHD, _ = _attend(
        q_NHD, k_SHD, v_SHD, query_sentence_N, query_starts_B, key_sentence_S, key_starts_B, causal
    )
    return cast(Tensor, attended_NHD)


def attend_packed_self(qkv_N3HD: Tensor, sentence_N: Tensor, starts_B: Tensor, causal: bool) -> Tensor:
    """Compute `attend_packed` of tokens that attend to each other, whose queries, keys and values are side by side.

    Their gradients are then side by side as well, without a copy.

    Args:
        qkv_N3HD: queries, keys and values, as one matrix product returns them.
        sentence_N: number of the sentence of each token.
        starts_B: start of each sentence, and end of the last one; int32, one more than sentences.
        causal: True if a token sees no tokens after itself.

    Returns:
        Attended values, [N, H, D].
    """
    attended_NHD, _ = _attend_self(qkv_N3HD, sentence_N, starts_B, causal)
    return cast(Tensor, attended_NHD)


def fits(dtype: torch.dtype, query_width: int, value_width: int) -> bool:
    """Return True if the kernels support these tensors: half precision, and heads of one width that fits."""
    is_half = dtype in {torch.bfloat16, torch.float16}
    return is_half and query_width == value_width and query_width in {16, 32, 64, 128}


@triton_op("nmt::attend_packed", mutates_args=())
def _attend(
    q_NHD: Tensor,
    k_SHD: Tensor,
    v_SHD: Tensor,
    query_sentence_N: Tensor,
    query_starts_B: Tensor,
    key_sentence_S: Tensor,
    key_starts_B: Tensor,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """Return the attended values [N, H, D], and the logarithm to base 2 of each query's sum, fp32 [H, N]."""
    return _launch_forward(q_NHD, k_SHD, v_SHD, query_sentence_N, key_starts_B, causal)


@triton_op("nmt::attend_packed_self", mutates_args=())
def _attend_self(qkv_N3HD: Tensor, sentence_N: Tensor, starts_B: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Return the results of `_attend`."""
    q_NHD, k_NHD, v_NHD = qkv_N3HD.unbind(1)
    return _launch_forward(q_NHD, k_NHD, v_NHD, sentence_N, starts_B, causal)


def _launch_forward(
    q_NHD: Tensor, k_SHD: Tensor, v_SHD: Tensor, query_sentence_N: Tensor, key_starts_B: Tensor, causal: bool
) -> tuple[Tensor, Tensor]:
    queries, heads, width = q_NHD.shape
    attended_NHD = torch.empty((queries, heads, width), dtype=q_NHD.dtype, device=q_NHD.device)
    log_sum_HN = torch.empty((heads, queries), dtype=torch.float32, device=q_NHD.device)
    long, short = _tile_lengths(width)
    launchable(_forward_kernel)[(triton.cdiv(queries, long), heads)](
        q_NHD, k_SHD, v_SHD, attended_NHD, log_sum_HN, query_sentence_N, key_starts_B, queries, len(k_SHD),
        *_strides(q_NHD), *_strides(k_SHD), *_strides(v_SHD), *_strides(attended_NHD),
        _LOG2_E / math.sqrt(width), causal, width, long, short, num_warps=_WARPS,
    )  # fmt: skip
    return attended_NHD, log_sum_HN


@triton_op("nmt::attend_packed_backward", mutates_args=())
def _attend_backward(
    gradient_NHD: Tensor,
    q_NHD: Tensor,
    k_SHD: Tensor,
    v_SHD: Tensor,
    attended_NHD: Tensor,
    log_sum_HN: Tensor,
    query_sentence_N: Tensor,
    query_starts_B: Tensor,
    key_sentence_S: Tensor,
    key_starts_B: Tensor,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of queries, [N, H, D], and of keys and values together, [2, S, H, D]."""
    dq_NHD = torch.empty(q_NHD.shape, dtype=q_NHD.dtype, device=q_NHD.device)
    dkv_2SHD = torch.empty((2, *k_SHD.shape), dtype=k_SHD.dtype, device=k_SHD.device)
    saved = q_NHD, k_SHD, v_SHD, attended_NHD, log_sum_HN
    layout = query_sentence_N, query_starts_B, key_sentence_S, key_starts_B
    places = (*_strides(dq_NHD), *_strides(dkv_2SHD[0]), 0, k_SHD.numel())
    _launch_backward(gradient_NHD, saved, layout, causal, (dq_NHD, dkv_2SHD), places)
    return dq_NHD, dkv_2SHD


@triton_op("nmt::attend_packed_self_backward", mutates_args=())
def _attend_self_backward(
    gradient_NHD: Tensor,
    qkv_N3HD: Tensor,
    attended_NHD: Tensor,
    log_sum_HN: Tensor,
    sentence_N: Tensor,
    starts_B: Tensor,
    causal: bool,
) -> Tensor:
    """Return the gradients of queries, keys and values, side by side."""
    gradients_N3HD = torch.empty(qkv_N3HD.shape, dtype=qkv_N3HD.dtype, device=qkv_N3HD.device)
    saved = *qkv_N3HD.unbind(1), attended_NHD, log_sum_HN
    layout = sentence_N, starts_B, sentence_N, starts_B
    strides, width = _strides(gradients_N3HD[:, 0]), gradients_N3HD.stride(1)
    places = (*strides, *strides, width, 2 * width)
    _launch_backward(gradient_NHD, saved, layout, causal, (gradients_N3HD, gradients_N3HD), places)
    return gradients_N3HD


def _launch_backward(
    gradient_NHD: Tensor,
    saved: tuple[Tensor, ...],
    layout: tuple[Tensor, ...],
    causal: bool,
    gradients: tuple[Tensor, Tensor],
    places: tuple[int, ...],
) -> None:
    """Write the gradients of queries into one tensor, and the gradients of keys and values into another.

    Both may be the same. `places` are the strides of tokens and of heads in the first, the strides in the second, and
    the places in it where keys and values begin.
    """
    q_NHD, k_SHD, v_SHD, attended_NHD, log_sum_HN = saved
    query_sentence_N, query_starts_B, key_sentence_S, key_starts_B = layout
    (queries, heads, width), keys = q_NHD.shape, len(k_SHD)
    delta_HN = torch.empty_like(log_sum_HN)
    (long, short), scale = _tile_lengths(width), 1 / math.sqrt(width)
    launchable(_query_gradient_kernel)[(triton.cdiv(queries, long), heads)](
        q_NHD, k_SHD, v_SHD, attended_NHD, gradient_NHD, gradients[0], log_sum_HN, delta_HN,
        query_sentence_N, key_starts_B, queries, keys,
        *_strides(q_NHD), *_strides(k_SHD), *_strides(v_SHD), *_strides(gradient_NHD), *places[:2],
        scale, _LOG2_E * scale, causal, width, long, short, num_warps=_WARPS,
    )  # fmt: skip
    launchable(_key_gradient_kernel)[(triton.cdiv(keys, long), heads)](
        q_NHD, k_SHD, v_SHD, gradient_NHD, gradients[1], log_sum_HN, delta_HN,
        query_starts_B, key_sentence_S, queries, keys,
        *_strides(q_NHD), *_strides(k_SHD), *_strides(v_SHD), *_strides(gradient_NHD), *places[2:],
        scale, _LOG2_E * scale, causal, width, short, long, num_warps=_WARPS,
    )  # fmt: skip


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q_NHD, k_SHD, v_SHD, *layout, ctx.causal = inputs
    ctx.save_for_backward(q_NHD, k_SHD, v_SHD, *output, *layout)


def _differentiate(ctx: Any, gradient_NHD: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    dq_NHD, dkv_2SHD = _attend_backward(gradient_NHD.contiguous(), *ctx.saved_tensors, ctx.causal)
    return dq_NHD, dkv_2SHD[0], dkv_2SHD[1], None, None, None, None, None


def _keep_self(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    qkv_N3HD, *layout, ctx.causal = inputs
    ctx.save_for_backward(qkv_N3HD, *output, *layout)


def _differentiate_self(ctx: Any, gradient_NHD: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return _attend_self_backward(gradient_NHD.contiguous(), *ctx.saved_tensors, ctx.causal), None, None, None


_attend.register_autograd(_differentiate, setup_context=_keep)
_attend_self.register_autograd(_differentiate_self, setup_context=_keep_self)


def _tile_lengths(width: int) -> tuple[int, int]:
    """Return the tokens of the two kinds of tiles: as many as rows of this width leave room for."""
    return (_LONG, _SHORT) if width <= 64 else (_LONG // 2, _SHORT // 2)


def _strides(x_NHD: Tensor) -> tuple[int, int]:
    """Return the strides between tokens and between heads. The numbers of a head must be contiguous."""
    assert x_NHD.stride(-1) == 1
    return x_NHD.stride(0), x_NHD.stride(1)


@triton.jit  # type: ignore[untyped-decorator]
def _forward_kernel(  # type: ignore[no-untyped-def]
    q, k, v, attended, log_sum, query_sentence, key_starts, queries, keys,
    q_token, q_head, k_token, k_head, v_token, v_head, attended_token, attended_head,
    SCALE_2: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Compute one tile of queries of one head. `SCALE_2` is the scale of the scores, times log2(e)."""
    head, column_D = tl.program_id(1), tl.arange(0, D)
    row_Q = tl.program_id(0) * Q + tl.arange(0, Q)
    is_query_Q = row_Q < queries
    sentence_Q = tl.load(query_sentence + row_Q, mask=is_query_Q, other=0)
    begin_Q = tl.load(key_starts + sentence_Q, mask=is_query_Q, other=keys)
    end_Q = tl.load(key_starts + sentence_Q + 1, mask=is_query_Q, other=0)
    if CAUSAL:
        end_Q = tl.minimum(end_Q, row_Q + 1)
    q_QD = tl.load(q + row_Q[:, None] * q_token + head * q_head + column_D, mask=is_query_Q[:, None], other=0.0)
    largest_Q = tl.full([Q], -1e30, tl.float32)
    sum_Q = tl.zeros([Q], tl.float32)
    attended_QD = tl.zeros([Q, D], tl.float32)
    for start in range(tl.min(begin_Q, 0), tl.max(end_Q, 0), K):
        row_K = start + tl.arange(0, K)
        is_key_K = row_K < keys
        k_KD = tl.load(k + row_K[:, None] * k_token + head * k_head + column_D, mask=is_key_K[:, None], other=0.0)
        v_KD = tl.load(v + row_K[:, None] * v_token + head * v_head + column_D, mask=is_key_K[:, None], other=0.0)
        sees_QK = (row_K[None] >= begin_Q[:, None]) & (row_K[None] < end_Q[:, None])
        score_QK = tl.dot(q_QD, tl.trans(k_KD), input_precision="ieee") * SCALE_2
        score_QK = tl.where(sees_QK, score_QK, float("-inf"))
        new_largest_Q = tl.maximum(largest_Q, tl.max(score_QK, 1))
        weight_QK = tl.exp2(score_QK - new_largest_Q[:, None])
        shrink_Q = tl.exp2(largest_Q - new_largest_Q)
        sum_Q = sum_Q * shrink_Q + tl.sum(weight_QK, 1)
        attended_QD = attended_QD * shrink_Q[:, None]
        attended_QD += tl.dot(weight_QK.to(v_KD.dtype), v_KD, input_precision="ieee")
        largest_Q = new_largest_Q
    sum_Q = tl.where(sum_Q > 0, sum_Q, 1.0)  # no keys: zeros, not NaN
    place_QD = row_Q[:, None] * attended_token + head * attended_head + column_D
    tl.store(attended + place_QD, (attended_QD / sum_Q[:, None]).to(q_QD.dtype), mask=is_query_Q[:, None])
    tl.store(log_sum + head * queries + row_Q, largest_Q + tl.log2(sum_Q), mask=is_query_Q)


@triton.jit  # type: ignore[untyped-decorator]
def _query_gradient_kernel(  # type: ignore[no-untyped-def]
    q, k, v, attended, gradient, dq, log_sum, delta, query_sentence, key_starts, queries, keys,
    q_token, q_head, k_token, k_head, v_token, v_head, gradient_token, gradient_head, dq_token, dq_head,
    SCALE: tl.constexpr, SCALE_2: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of one tile of queries of one head, and `delta`, the sums of gradient times attended values.

    The attended values and their gradient have the same strides. `SCALE_2` is `SCALE` times log2(e).
    """
    head, column_D = tl.program_id(1), tl.arange(0, D)
    row_Q = tl.program_id(0) * Q + tl.arange(0, Q)
    is_query_Q = row_Q < queries
    sentence_Q = tl.load(query_sentence + row_Q, mask=is_query_Q, other=0)
    begin_Q = tl.load(key_starts + sentence_Q, mask=is_query_Q, other=keys)
    end_Q = tl.load(key_starts + sentence_Q + 1, mask=is_query_Q, other=0)
    if CAUSAL:
        end_Q = tl.minimum(end_Q, row_Q + 1)
    is_row_QD = is_query_Q[:, None]
    place_QD = row_Q[:, None] * gradient_token + head * gradient_head + column_D
    q_QD = tl.load(q + row_Q[:, None] * q_token + head * q_head + column_D, mask=is_row_QD, other=0.0)
    gradient_QD = tl.load(gradient + place_QD, mask=is_row_QD, other=0.0)
    attended_QD = tl.load(attended + place_QD, mask=is_row_QD, other=0.0)
    log_sum_Q = tl.load(log_sum + head * queries + row_Q, mask=is_query_Q, other=0.0)
    delta_Q = tl.sum(gradient_QD.to(tl.float32) * attended_QD.to(tl.float32), 1)
    tl.store(delta + head * queries + row_Q, delta_Q, mask=is_query_Q)
    dq_QD = tl.zeros([Q, D], tl.float32)
    for start in range(tl.min(begin_Q, 0), tl.max(end_Q, 0), K):
        row_K = start + tl.arange(0, K)
        is_key_K = row_K < keys
        k_KD = tl.load(k + row_K[:, None] * k_token + head * k_head + column_D, mask=is_key_K[:, None], other=0.0)
        v_KD = tl.load(v + row_K[:, None] * v_token + head * v_head + column_D, mask=is_key_K[:, None], other=0.0)
        sees_QK = (row_K[None] >= begin_Q[:, None]) & (row_K[None] < end_Q[:, None])
        score_QK = tl.dot(q_QD, tl.trans(k_KD), input_precision="ieee") * SCALE_2
        weight_QK = tl.where(sees_QK, tl.exp2(score_QK - log_sum_Q[:, None]), 0.0)
        change_QK = tl.dot(gradient_QD, tl.trans(v_KD), input_precision="ieee") - delta_Q[:, None]
        dq_QD += tl.dot((weight_QK * change_QK).to(k_KD.dtype), k_KD, input_precision="ieee")
    place_QD = row_Q[:, None] * dq_token + head * dq_head + column_D
    tl.store(dq + place_QD, (dq_QD * SCALE).to(q_QD.dtype), mask=is_row_QD)


@triton.jit  # type: ignore[untyped-decorator]
def _key_gradient_kernel(  # type: ignore[no-untyped-def]
    q, k, v, gradient, dkv, log_sum, delta, query_starts, key_sentence, queries, keys,
    q_token, q_head, k_token, k_head, v_token, v_head, gradient_token, gradient_head,
    dkv_token, dkv_head, dk_place, dv_place,
    SCALE: tl.constexpr, SCALE_2: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of the keys and values of one tile of one head."""
    head, column_D = tl.program_id(1), tl.arange(0, D)
    row_K = tl.program_id(0) * K + tl.arange(0, K)
    is_key_K = row_K < keys
    sentence_K = tl.load(key_sentence + row_K, mask=is_key_K, other=0)
    begin_K = tl.load(query_starts + sentence_K, mask=is_key_K, other=queries)
    end_K = tl.load(query_starts + sentence_K + 1, mask=is_key_K, other=0)
    if CAUSAL:
        begin_K = tl.maximum(begin_K, tl.where(is_key_K, row_K, queries))
    k_KD = tl.load(k + row_K[:, None] * k_token + head * k_head + column_D, mask=is_key_K[:, None], other=0.0)
    v_KD = tl.load(v + row_K[:, None] * v_token + head * v_head + column_D, mask=is_key_K[:, None], other=0.0)
    dk_KD = tl.zeros([K, D], tl.float32)
    dv_KD = tl.zeros([K, D], tl.float32)
    for start in range(tl.min(begin_K, 0), tl.max(end_K, 0), Q):
        row_Q = start + tl.arange(0, Q)
        is_query_Q = row_Q < queries
        place_QD = row_Q[:, None] * gradient_token + head * gradient_head + column_D
        q_QD = tl.load(q + row_Q[:, None] * q_token + head * q_head + column_D, mask=is_query_Q[:, None], other=0.0)
        gradient_QD = tl.load(gradient + place_QD, mask=is_query_Q[:, None], other=0.0)
        log_sum_Q = tl.load(log_sum + head * queries + row_Q, mask=is_query_Q, other=0.0)
        delta_Q = tl.load(delta + head * queries + row_Q, mask=is_query_Q, other=0.0)
        seen_KQ = (row_Q[None] >= begin_K[:, None]) & (row_Q[None] < end_K[:, None])
        score_KQ = tl.dot(k_KD, tl.trans(q_QD), input_precision="ieee") * SCALE_2
        weight_KQ = tl.where(seen_KQ, tl.exp2(score_KQ - log_sum_Q[None]), 0.0)
        dv_KD += tl.dot(weight_KQ.to(gradient_QD.dtype), gradient_QD, input_precision="ieee")
        change_KQ = tl.dot(v_KD, tl.trans(gradient_QD), input_precision="ieee") - delta_Q[None]
        dk_KD += tl.dot((weight_KQ * change_KQ).to(q_QD.dtype), q_QD, input_precision="ieee")
    place_KD = row_K[:, None] * dkv_token + head * dkv_head + column_D
    tl.store(dkv + dk_place + place_KD, (dk_KD * SCALE).to(k_KD.dtype), mask=is_key_K[:, None])
    tl.store(dkv + dv_place + place_KD, dv_KD.to(v_KD.dtype), mask=is_key_K[:, None])
