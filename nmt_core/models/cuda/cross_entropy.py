"""Compute softmax, label-smoothed loss and gradient of rows of logits in one kernel.

A row is read twice and written once, which moves 6 bytes a logit in half precision. The second read is mostly from the
cache. The separate operators of `loss.py` move 40 bytes.

Letters: see `nmt_core.models`. Here C counts the tokens of a chunk. In the kernel, B counts the pieces of a block.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2_048
_WARPS = 8


def cross_entropy_rows(
    logits_CV: Tensor, target_C: Tensor, label_smoothing: float, padding: int, with_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Compute the loss of each row, in nats, and put the gradient of the smoothed loss in place of the logits.

    Args:
        logits_CV: logits, contiguous within a row. They are overwritten if `with_gradient` is True.
        target_C: id to predict, int64.
        label_smoothing: probability mass that is spread evenly over the vocabulary (Szegedy et al. 2016, section 7).
        padding: id of padding. A row with this target has no loss and no gradient.
        with_gradient: True to overwrite the logits with softmax minus the distribution to learn.

    Returns:
        -log p(target), and the mean of -log p over the vocabulary, both fp32 [C].
    """
    tokens, pieces = logits_CV.shape
    plain_C, evenly_C = torch.empty((2, tokens), dtype=torch.float32, device=logits_CV.device)
    _rows_kernel[(tokens,)](
        logits_CV, target_C, plain_C, evenly_C, logits_CV.stride(0), pieces, label_smoothing, padding,
        with_gradient, _BLOCK, num_warps=_WARPS,
    )  # fmt: skip
    return plain_C, evenly_C


@triton.jit  # type: ignore[untyped-decorator]
def _rows_kernel(  # type: ignore[no-untyped-def]
    logits, target, plain, evenly, stride, pieces, smoothing, padding, WITH_GRADIENT: tl.constexpr, B: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    answer = tl.load(target + row)
    place_B = tl.arange(0, B)
    largest_B = tl.full([B], -1e30, tl.float32)
    exponentials_B = tl.zeros([B], tl.float32)
    logits_B = tl.zeros([B], tl.float32)
    for start in range(0, pieces, B):
        inside_B = start + place_B < pieces
        logit_B = tl.load(logits + start + place_B, mask=inside_B, other=-1e30).to(tl.float32)
        # exp(smaller - larger), of this logit and the largest one so far: one exponential in place of two.
        share_B = tl.exp(-tl.abs(logit_B - largest_B))
        is_larger_B = logit_B > largest_B
        exponentials_B = tl.where(is_larger_B, exponentials_B * share_B + 1.0, exponentials_B + share_B)
        largest_B = tl.maximum(largest_B, logit_B)
        logits_B += tl.where(inside_B, logit_B, 0.0)
    largest = tl.max(largest_B, 0)
    log_sum = largest + tl.log(tl.sum(exponentials_B * tl.exp(largest_B - largest), 0))
    is_token = tl.where(answer == padding, 0.0, 1.0)
    tl.store(
        plain + row, (log_sum - tl.load(logits + answer, mask=answer != padding, other=0.0).to(tl.float32)) * is_token
    )
    tl.store(evenly + row, (log_sum - tl.sum(logits_B, 0) / pieces) * is_token)
    if WITH_GRADIENT:
        tl.debug_barrier()  # any thread may read the answer's logit above, and another one overwrites it below
        for start in range(0, pieces, B):
            inside_B = start + place_B < pieces
            logit_B = tl.load(logits + start + place_B, mask=inside_B, other=-1e30).to(tl.float32)
            wanted_B = tl.where(start + place_B == answer, 1.0 - smoothing, 0.0) + smoothing / pieces
            gradient_B = (tl.exp(logit_B - log_sum) - wanted_B) * is_token
            gradient_B = gradient_B.to(logits.dtype.element_ty)
            # Not read again here: what other rows will read again should stay in the cache.
            tl.store(logits + start + place_B, gradient_B, mask=inside_B, eviction_policy="evict_first")
