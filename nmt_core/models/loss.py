"""Label-smoothed cross-entropy (Vaswani et al. 2017, section 5.4, and Szegedy et al. 2016, section 7).

Letters: see `nmt_core.models`. Here N counts the target tokens (on a CPU without padding), C the tokens of a chunk, and
B the rows of a block of a chunk.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

if torch.cuda.is_available():  # importing Triton's kernels takes seconds
    from nmt_core.models.cuda.cross_entropy import cross_entropy_rows

_CHUNK_TOKENS = {"cpu": 1_024, "cuda": 8_192}
"""Most tokens whose logits exist at once: there is never a [N, V] matrix. A CPU should not wait for memory. A GPU
should not wait for its next kernel, and for each chunk it reads the output matrix once and adds to its gradient
once."""

_BLOCK_LOGITS = 1 << 19
"""Number of logits for which a CPU computes all steps of softmax before it turns to the next ones: few enough to stay
in its own cache."""

_COLUMNS = 8
"""Multiple to which the width of the output matrix is padded where a bias is added to it."""

_ROUNDED = 128
"""Multiple to which the last chunk is padded (see `batches.layout.Rows`). On a GPU the vocabulary is padded too,
because a product in half precision takes several times as long if its number of columns is odd."""


def smoothed_cross_entropy(
    states_M: Tensor,
    output_VM: Tensor,
    target: Tensor,
    label_smoothing: float,
    padding: int | None = None,
    bias_V: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the sums over tokens of the smoothed loss, to descend on, and of the plain loss, to report, both in nats.

    The distribution to learn gives 1 - label_smoothing to the target, and spreads label_smoothing evenly over the whole
    vocabulary, the target included. Logits are states @ output_VM.T in the precision of the states. Their softmax is in
    fp32.

    Args:
        states_M: states of the decoder, [..., M].
        output_VM: output matrix.
        target: ids to predict, int64 [...].
        label_smoothing: probability mass that is spread.
        padding: id of tokens that do not count. None means that all count. A CPU drops them before it computes
            anything. A GPU computes them all the same: to drop them, the host would have to wait for their number.
        bias_V: bias of the output. None means that it has none.
    """
    if bias_V is not None:
        states_M, output_VM = _with_bias(states_M, output_VM, bias_V)
    on_gpu = states_M.device.type == "cuda"
    if padding is not None and not on_gpu:
        is_token = target != padding
        states_M, target = states_M[is_token], target[is_token]
    smoothed, plain = (_OnGpu if on_gpu else _OnCpu).apply(
        states_M.flatten(0, -2),
        output_VM,
        target.flatten(),
        label_smoothing,
        -1 if padding is None else padding,
        torch.is_grad_enabled(),
    )  # type: ignore[no-untyped-call]
    return smoothed, plain


def _with_bias(states_M: Tensor, output_VM: Tensor, bias_V: Tensor) -> tuple[Tensor, Tensor]:
    """Return states and an output matrix whose product has the bias: it is one more column, which a 1 multiplies.

    Columns of zeros follow, because a product in half precision is several times slower with an odd width on a GPU.
    """
    width = output_VM.shape[1]
    columns = -(width + 1) % _COLUMNS + 1
    bias_V1 = bias_V.to(output_VM.dtype)[:, None]
    output_VM = torch.cat([output_VM, F.pad(bias_V1, (0, columns - 1))], dim=1)
    one = states_M.new_ones((*states_M.shape[:-1], 1))
    return torch.cat([states_M, F.pad(one, (0, columns - 1))], dim=-1), output_VM


def alignment_loss(log_weights_BHTS: Tensor, aligned_BT: Tensor) -> Tensor:
    """Return the cross-entropy of attention and alignments, in nats, summed over target tokens.

    It is the loss of guided alignment (Chen et al. 2016, "Guided Alignment Training for Topic-Aware Neural Machine
    Translation").

    Args:
        log_weights_BHTS: logarithms of attention weights. Heads count equally.
        aligned_BT: source position of each target token. Tokens with -1 do not count.
    """
    place_B1T1 = aligned_BT.clamp_min(0)[:, None, :, None].expand(-1, log_weights_BHTS.shape[1], -1, -1)
    found_BT = log_weights_BHTS.gather(-1, place_B1T1).squeeze(-1).mean(1)
    return -found_BT.masked_fill(aligned_BT < 0, 0.0).sum()


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Projection, softmax and loss, chunk by chunk.

    The gradient is computed in the forward pass, while the logits are at hand.
    """

    @staticmethod
    def keep(ctx: Any, state_gradient_NM: Tensor, weight_gradient_VM: Tensor, plain: Tensor) -> None:
        """Save the gradients. The plain loss has none."""
        ctx.save_for_backward(state_gradient_NM, weight_gradient_VM)
        ctx.mark_non_differentiable(plain)

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        state_gradient_NM, weight_gradient_VM = ctx.saved_tensors
        scaled = state_gradient_NM * scale.to(state_gradient_NM.dtype), weight_gradient_VM * scale
        return (*scaled, None, None, None, None)


class _OnCpu(_ChunkedCrossEntropy):
    """Loss in small chunks. Each step of the softmax is an operator over a block that stays in the cache."""

    @staticmethod
    def forward(
        ctx: Any,
        states_NM: Tensor,
        output_VM: Tensor,
        target_N: Tensor,
        label_smoothing: float,
        padding: int,
        with_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        tokens, weight_VM = len(target_N), output_VM.to(states_NM.dtype)
        spare = -tokens % _ROUNDED  # zeros, which add nothing to any sum except the sum of `log_sum_C`
        states_NM, target_N = F.pad(states_NM, (0, 0, 0, spare)), F.pad(target_N, (0, spare))
        state_gradient_NM = torch.empty_like(states_NM)
        weight_gradient_VM = torch.zeros_like(output_VM, dtype=torch.float32)
        evenly, plain = (states_NM.new_zeros((), dtype=torch.float32) for _ in range(2))
        mean_M = output_VM.float().mean(0)
        for start in range(0, tokens, _CHUNK_TOKENS["cpu"]):
            chunk, end = slice(start, start + _CHUNK_TOKENS["cpu"]), tokens - start
            state_CM, target_C1 = states_NM[chunk], target_N[chunk, None]
            logits_CV = torch.mm(state_CM, weight_VM.t())
            target_logit_C = logits_CV.gather(1, target_C1).squeeze(1).float()
            log_sum_C = _log_sums(logits_CV, target_C1, label_smoothing, with_gradient)
            plain += (log_sum_C - target_logit_C)[:end].sum()
            evenly += log_sum_C[:end].sum() - state_CM.float().sum(0) @ mean_M  # minus the mean logit
            if with_gradient:
                gradient_CV = logits_CV
                gradient_CV[end:] = 0
                torch.mm(gradient_CV, weight_VM, out=state_gradient_NM[chunk])
                weight_gradient_VM += torch.mm(gradient_CV.t(), state_CM)
        _OnCpu.keep(ctx, state_gradient_NM[:tokens], weight_gradient_VM.to(output_VM.dtype), plain)
        return (1 - label_smoothing) * plain + label_smoothing * evenly, plain


class _OnGpu(_ChunkedCrossEntropy):
    """Loss in few large chunks of one size. Nothing makes the host wait.

    The softmax is one kernel, and the gradient of the weight is summed within its matrix product.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states_NM: Tensor,
        output_VM: Tensor,
        target_N: Tensor,
        label_smoothing: float,
        padding: int,
        with_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        (tokens, _), (pieces, _) = states_NM.shape, output_VM.shape
        weight_VM = F.pad(output_VM.to(states_NM.dtype), (0, 0, 0, -pieces % _ROUNDED))
        size = _chunk_size(tokens)
        spare = -tokens % size
        states_NM, target_N = F.pad(states_NM, (0, 0, 0, spare)), F.pad(target_N, (0, spare), value=padding)
        state_gradient_NM = torch.empty_like(states_NM)
        weight_gradient_VM = torch.zeros_like(weight_VM, dtype=torch.float32)
        sums: list[Tensor] = []
        for start in range(0, tokens, size):
            state_CM, target_C = states_NM[start : start + size], target_N[start : start + size]
            logits_CV = torch.mm(state_CM, weight_VM.t())
            # The columns after the vocabulary stay zero: the kernel skips them, and as gradients they add nothing.
            sums += cross_entropy_rows(logits_CV[:, :pieces], target_C, label_smoothing, padding, with_gradient)
            if with_gradient:
                torch.mm(logits_CV, weight_VM, out=state_gradient_NM[start : start + size])
                _add_product(weight_gradient_VM, logits_CV.t(), state_CM)
        plain, evenly = torch.cat(sums[0::2]).sum(), torch.cat(sums[1::2]).sum()
        _OnGpu.keep(ctx, state_gradient_NM[:tokens], weight_gradient_VM[:pieces].to(output_VM.dtype), plain)
        return (1 - label_smoothing) * plain + label_smoothing * evenly, plain


def _add_product(sum_: Tensor, one: Tensor, other: Tensor) -> None:
    """Add a matrix product to a sum in fp32, without first rounding it to the precision of its factors."""
    if one.dtype == torch.float32:
        sum_.addmm_(one, other)
    else:
        torch.addmm(sum_, one, other, out_dtype=torch.float32, out=sum_)


def _chunk_size(tokens: int) -> int:
    """Return the number of tokens of a chunk, if there are as few equal chunks as possible."""
    chunks = -(-tokens // _CHUNK_TOKENS["cuda"])
    return max(1, -(-tokens // max(1, chunks) // _ROUNDED)) * _ROUNDED


def _log_sums(logits_CV: Tensor, target_C1: Tensor, label_smoothing: float, with_gradient: bool) -> Tensor:
    """Return the logarithm of each row's sum of exponentials, fp32.

    If `with_gradient`, replace the logits by the gradient of the smoothed loss: softmax minus the distribution to
    learn.
    """
    vocab_size = logits_CV.shape[1]
    rows = max(1, _BLOCK_LOGITS // vocab_size)
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
