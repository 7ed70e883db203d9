"""Label-smoothed cross-entropy (Vaswani et al. 2017, section 5.4; Szegedy et al. 2016, section 7).

Letters in names of tensors: N target tokens that are not padding, C tokens of a chunk, B rows of a block of it, M
`d_model`, V vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK_TOKENS = 1_024
"""Tokens whose logits exist at once: never a [N, V] matrix, and few enough that a CPU has not to wait for memory; fewer
would have the output matrix read, and its gradient added to, more often."""

_BLOCK_LOGITS = 1 << 19
"""Logits that a CPU takes from the first step of softmax to the last before it turns to others: few enough that they
stay in its own cache. A GPU takes the whole chunk."""

_ROUNDED_TOKENS = 128
"""The last chunk is made a multiple of this; see `batches.layout.Rows`."""


def smoothed_cross_entropy(
    states_NM: Tensor, output_VM: Tensor, target_N: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Sums over tokens of the smoothed loss, to descend on, and of the plain one, to report; both in nats.

    The distribution to learn gives 1 - label_smoothing to the target and spreads label_smoothing evenly over the whole
    vocabulary, the target included. Logits are states_NM @ output_VM.T, in the precision of the states; their softmax
    is in fp32.

    Args:
        states_NM: the decoder's states.
        output_VM: the output matrix.
        target_N: ids to predict, int64.
        label_smoothing: mass that is spread.
    """
    smoothed, plain = _ChunkedCrossEntropy.apply(
        states_NM, output_VM, target_N, label_smoothing, torch.is_grad_enabled()
    )  # type: ignore[no-untyped-call]
    return smoothed, plain


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Projection, softmax and loss chunk by chunk; the gradient is made on the way, while the logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any, states_NM: Tensor, output_VM: Tensor, target_N: Tensor, label_smoothing: float, with_gradient: bool
    ) -> tuple[Tensor, Tensor]:
        tokens, weight_VM = len(target_N), output_VM.to(states_NM.dtype)
        spare = -tokens % _ROUNDED_TOKENS  # zeros, which add nothing to any sum but that of `log_sum_C`
        states_NM, target_N = F.pad(states_NM, (0, 0, 0, spare)), F.pad(target_N, (0, spare))
        state_gradient_NM = torch.empty_like(states_NM)
        weight_gradient_VM = torch.zeros_like(output_VM, dtype=torch.float32)
        evenly, plain = (states_NM.new_zeros((), dtype=torch.float32) for _ in range(2))
        mean_M = output_VM.float().mean(0)
        for start in range(0, tokens, _CHUNK_TOKENS):
            chunk, end = slice(start, start + _CHUNK_TOKENS), tokens - start
            state_CM, target_C1 = states_NM[chunk], target_N[chunk, None]
            logits_CV = torch.mm(state_CM, weight_VM.t())
            target_logit_C = logits_CV.gather(1, target_C1).squeeze(1).float()
            log_sum_C = _log_sums(logits_CV, target_C1, label_smoothing, with_gradient)
            plain += (log_sum_C - target_logit_C)[:end].sum()
            evenly += log_sum_C[:end].sum() - state_CM.float().sum(0) @ mean_M  # less the mean logit
            if with_gradient:
                gradient_CV = logits_CV
                gradient_CV[end:] = 0
                torch.mm(gradient_CV, weight_VM, out=state_gradient_NM[chunk])
                weight_gradient_VM += torch.mm(gradient_CV.t(), state_CM)
        smoothed = (1 - label_smoothing) * plain + label_smoothing * evenly
        if with_gradient:
            state_gradient_NM = state_gradient_NM[:tokens]
            ctx.save_for_backward(state_gradient_NM, weight_gradient_VM.to(output_VM.dtype))
        ctx.mark_non_differentiable(plain)
        return smoothed, plain

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        state_gradient_NM, weight_gradient_VM = ctx.saved_tensors
        return state_gradient_NM * scale.to(state_gradient_NM.dtype), weight_gradient_VM * scale, None, None, None


def _log_sums(logits_CV: Tensor, target_C1: Tensor, label_smoothing: float, with_gradient: bool) -> Tensor:
    """The logarithm of each row's sum of exponentials, fp32.

    With the gradient, that of the smoothed loss takes the place of the logits: softmax less the distribution to learn.
    """
    vocab_size = logits_CV.shape[1]
    rows = max(1, _BLOCK_LOGITS // vocab_size) if logits_CV.device.type == "cpu" else len(logits_CV)
    log_sums = []
    for start in range(0, len(logits_CV), rows):
        logits_BV, target_B1 = logits_CV[start : start + rows], target_C1[start : start + rows]
        work_BV = logits_BV.float()
        largest_B1 = work_BV.amax(1, keepdim=True)
        work_BV.sub_(largest_B1).exp_()
        sum_B1 = work_BV.sum(1, keepdim=True)
        log_sums.append((largest_B1 + sum_B1.log()).squeeze(1))
        if with_gradient:
            work_BV.mul_(sum_B1.reciprocal()).sub_(label_smoothing / vocab_size)
            work_BV.scatter_add_(1, target_B1, work_BV.new_full(target_B1.shape, label_smoothing - 1))
            logits_BV.copy_(work_BV)
    return torch.cat(log_sums)
