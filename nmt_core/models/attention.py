"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), behind one interface.

It is the one part of a model that has to know how sentences lie in a tensor (`batches/layout.py`): everything else
looks at one token at a time.

Letters in names of tensors: B sentences, T queries, S keys, L positions of either, N tokens of a stream, H heads, D
width of a head.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt_core.batches.layout import Layout, Packed, Padded

if torch.version.cuda:
    from nmt_core.models.cuda.attention import attend_packed, fits


def attend(
    q: Tensor, k: Tensor, v: Tensor, keys: Layout, queries: Layout | None = None, *, causal: bool = False
) -> Tensor:
    """softmax(q k^T / sqrt(D)) v for each head, by the backend that is fast for these tensors.

    - `cuda/attention.py`: packed streams in half precision on CUDA, without any padding, if it takes heads so wide.
    - SDPA: PyTorch's fused kernels, elsewhere; streams are unpacked for it.
    - reference: bf16 on the CPU, where the backward pass of SDPA is ten times slower than the plain formula (measured
      with PyTorch 2.13 at 12-24 tokens a sentence).

    Args:
        q: queries, [B, T, H, D] or [N, H, D].
        k: keys, [B, S, H, D] or [N, H, D].
        v: values, as the keys, but D may be another.
        keys: how the keys lie.
        queries: how the queries lie; None: as the keys. Both are padded, or both packed, with the same sentences.
        causal: query t sees keys 0..t only; for a sequence that attends to itself.

    Returns:
        As the queries, with the D of the values.
    """
    queries = queries or keys
    if not isinstance(queries, Padded) and not isinstance(keys, Padded):
        if q.device.type == "cuda" and isinstance(queries, Packed) and isinstance(keys, Packed) and fits(q, v):
            return attend_packed(q, k, v, queries.sentence_N, queries.starts, keys.sentence_N, keys.starts, causal)
        (q_BTHD, _), (k_BSHD, padded), (v_BSHD, _) = queries.unpack(q), keys.unpack(k), keys.unpack(v)
        return queries.pack(_attend_padded(q_BTHD, k_BSHD, v_BSHD, padded, causal=causal))
    assert isinstance(keys, Padded) and isinstance(queries, Padded)
    return _attend_padded(q, k, v, keys, causal=causal)


def _attend_padded(q_BTHD: Tensor, k_BSHD: Tensor, v_BSHD: Tensor, keys: Padded, *, causal: bool) -> Tensor:
    q_BHTD, k_BHSD, v_BHSD = (x.transpose(1, 2) for x in (q_BTHD, k_BSHD, v_BSHD))
    # Padding stands behind the tokens, so a query that is a token never sees it when it looks back only.
    mask_B1S = None if causal or keys.is_token_BL is None else keys.is_token_BL[:, None]
    if q_BTHD.device.type == "cpu" and q_BTHD.dtype == torch.bfloat16:
        return attend_reference(q_BHTD, k_BHSD, v_BHSD, mask_B1S, causal=causal).transpose(1, 2)
    mask = None if mask_B1S is None else mask_B1S[:, None]
    return F.scaled_dot_product_attention(q_BHTD, k_BHSD, v_BHSD, attn_mask=mask, is_causal=causal).transpose(1, 2)


def attend_reference(
    q_BHTD: Tensor, k_BHSD: Tensor, v_BHSD: Tensor, mask_BTS: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """The same, as the formula reads; the oracle of the tests.

    Args:
        q_BHTD: queries.
        k_BHSD: keys.
        v_BHSD: values.
        mask_BTS: bool, broadcastable to [B, T, S]; True where a query may look. None: everywhere.
        causal: query t sees keys 0..t only.

    Returns:
        [B, H, T, D].
    """
    return attention_weights(q_BHTD, k_BHSD, mask_BTS, causal=causal).to(v_BHSD.dtype) @ v_BHSD


def attention_weights(
    q_BHTD: Tensor, k_BHSD: Tensor, mask_BTS: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """softmax(q k^T / sqrt(D)): how much each query takes of each key, [B, H, T, S]; see `attend_reference`."""
    scores_BHTS = q_BHTD @ k_BHSD.transpose(-2, -1) / math.sqrt(q_BHTD.shape[-1])
    if causal:
        before = torch.ones(scores_BHTS.shape[-2:], dtype=torch.bool, device=scores_BHTS.device).tril()
        mask_BTS = before[None] if mask_BTS is None else mask_BTS & before
    if mask_BTS is not None:
        scores_BHTS = scores_BHTS.masked_fill(~mask_BTS[:, None], float("-inf"))
    return scores_BHTS.softmax(-1)
