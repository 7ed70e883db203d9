"""Label-smoothed cross-entropy (Vaswani et al. 2017, section 5.4; Szegedy et al. 2016, section 7).

Letters in names of tensors: N target tokens that are not padding, C tokens of a chunk, M `d_model`, V vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK_TOKENS = 256
"""Tokens whose logits exist at once: few enough to stay in a CPU's cache, and never a [N, V] matrix on a GPU."""


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
        weight_VM = output_VM.to(states_NM.dtype)
        state_gradient_NM = torch.empty_like(states_NM)
        weight_gradient_VM = torch.zeros_like(output_VM, dtype=torch.float32)
        smoothed, plain = (states_NM.new_zeros((), dtype=torch.float32) for _ in range(2))
        for start in range(0, len(target_N), _CHUNK_TOKENS):
            chunk = slice(start, start + _CHUNK_TOKENS)
            state_CM, target_C1 = states_NM[chunk], target_N[chunk, None]
            log_probs_CV = F.log_softmax(torch.mm(state_CM, weight_VM.t()), dim=-1, dtype=torch.float32)
            chunk_plain = -log_probs_CV.gather(1, target_C1).sum()
            plain += chunk_plain
            smoothed += (1 - label_smoothing) * chunk_plain - label_smoothing * log_probs_CV.mean(dim=-1).sum()
            if with_gradient:
                # d loss / d logits = softmax - the distribution to learn
                gradient_CV = log_probs_CV.exp_().sub_(label_smoothing / len(output_VM))
                less = torch.full_like(target_C1, label_smoothing - 1, dtype=torch.float32)
                gradient_CV = gradient_CV.scatter_add_(1, target_C1, less).to(states_NM.dtype)
                torch.mm(gradient_CV, weight_VM, out=state_gradient_NM[chunk])
                weight_gradient_VM += torch.mm(gradient_CV.t(), state_CM)
        if with_gradient:
            ctx.save_for_backward(state_gradient_NM, weight_gradient_VM.to(output_VM.dtype))
        ctx.mark_non_differentiable(plain)
        return smoothed, plain

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        state_gradient_NM, weight_gradient_VM = ctx.saved_tensors
        return state_gradient_NM * scale.to(state_gradient_NM.dtype), weight_gradient_VM * scale, None, None, None
