"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), behind one interface.

Letters in names of tensors: B sentences, T queries, S keys, H heads, D width of a head.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def attend(
    q_BHTD: Tensor, k_BHSD: Tensor, v_BHSD: Tensor, mask_BTS: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """softmax(q k^T / sqrt(D)) v, by the backend that is fast for these tensors.

    That is PyTorch's fused kernels, but for bf16 on the CPU, where their backward pass is ten times slower than the
    plain formula (measured with PyTorch 2.13 at 12-24 tokens a sentence).

    Args:
        q_BHTD: queries.
        k_BHSD: keys.
        v_BHSD: values.
        mask_BTS: bool, broadcastable to [B, T, S]; True where a query may look. None: everywhere.
        causal: query t sees keys 0..t only; excludes `mask_BTS`.

    Returns:
        [B, H, T, D].
    """
    if q_BHTD.device.type == "cpu" and q_BHTD.dtype == torch.bfloat16:
        return attend_reference(q_BHTD, k_BHSD, v_BHSD, mask_BTS, causal=causal)
    mask = None if mask_BTS is None else mask_BTS[:, None]
    return F.scaled_dot_product_attention(q_BHTD, k_BHSD, v_BHSD, attn_mask=mask, is_causal=causal)


def attend_reference(
    q_BHTD: Tensor, k_BHSD: Tensor, v_BHSD: Tensor, mask_BTS: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """The same, as the formula reads; the oracle of the tests."""
    scores_BHTS = q_BHTD @ k_BHSD.transpose(-2, -1) / math.sqrt(q_BHTD.shape[-1])
    if causal:
        mask_BTS = torch.ones(scores_BHTS.shape[-2:], dtype=torch.bool, device=scores_BHTS.device).tril()[None]
    if mask_BTS is not None:
        scores_BHTS = scores_BHTS.masked_fill(~mask_BTS[:, None], float("-inf"))
    return scores_BHTS.softmax(-1).to(v_BHSD.dtype) @ v_BHSD
