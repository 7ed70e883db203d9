"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), behind one interface.

Attention is the only part of a model that depends on the layout of sentences in a tensor (`batches/layout.py`). All
other parts compute one token at a time.

Letters: see `nmt_core.models`. Here T counts queries, and S counts keys.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt_core.batches.layout import Layout, Packed, Padded

if torch.cuda.is_available():  # importing Triton's kernels takes seconds
    from nmt_core.models.cuda.attention import attend_packed, attend_packed_self, fits


def attend(
    q: Tensor, k: Tensor, v: Tensor, keys: Layout, queries: Layout | None = None, *, causal: bool = False
) -> Tensor:
    """Return softmax(q k^T / sqrt(D)) v for each head, computed by the backend that is fast for these tensors.

    - `cuda/attention.py`: packed streams in half precision on CUDA, without any padding, if it supports the width of
      the heads.
    - SDPA: PyTorch's fused kernels, in the other cases. Streams are unpacked for it.
    - reference: bf16 on the CPU, where the backward pass of SDPA is ten times slower than the plain formula (measured
      with PyTorch 2.13 at 12-24 tokens a sentence).

    Args:
        q: queries, [B, T, H, D] or [N, H, D].
        k: keys, [B, S, H, D] or [N, H, D].
        v: values, shaped like the keys, but D may differ.
        keys: layout of the keys.
        queries: layout of the queries. None means the layout of the keys. Both are padded or both are packed, with the
            same sentences.
        causal: True if query t sees keys 0..t only, for a sequence that attends to itself.

    Returns:
        Tensor shaped like the queries, with the D of the values.
    """
    queries = queries or keys
    if not isinstance(queries, Padded) and not isinstance(keys, Padded):
        has_kernel = q.device.type == "cuda" and fits(q.dtype, q.shape[-1], v.shape[-1])
        if has_kernel and isinstance(queries, Packed) and isinstance(keys, Packed):
            return attend_packed(q, k, v, queries.sentence_N, queries.starts, keys.sentence_N, keys.starts, causal)
        (q_BTHD, _), (k_BSHD, padded), (v_BSHD, _) = queries.unpack(q), keys.unpack(k), keys.unpack(v)
        return queries.pack(_attend_padded(q_BTHD, k_BSHD, v_BSHD, padded, causal=causal))
    assert isinstance(keys, Padded) and isinstance(queries, Padded)
    return _attend_padded(q, k, v, keys, causal=causal)


def attend_self(
    projected_P: Tensor, widths: tuple[int, int, int], num_heads: int, layout: Layout, *, causal: bool = False
) -> Tensor:
    """Return `attend` for a sequence that attends to itself, whose queries, keys and values are side by side.

    Args:
        projected_P: queries of all heads, keys of all heads, and values of all heads, [..., P].
        widths: columns of the queries, of the keys and of the values.
        num_heads: number of heads.
        layout: layout of the sequence.
        causal: True if token t sees tokens 0..t only.

    Returns:
        Attended values, [..., H, D].
    """
    has_kernel = projected_P.device.type == "cuda" and fits(
        projected_P.dtype, widths[0] // num_heads, widths[2] // num_heads
    )
    if has_kernel and isinstance(layout, Packed):
        qkv_N3HD = projected_P.view(-1, 3, num_heads, widths[0] // num_heads)
        return attend_packed_self(qkv_N3HD, layout.sentence_N, layout.starts, causal)
    q_HD, k_HD, v_HD = (
        x_P.view(*x_P.shape[:-1], num_heads, -1) for x_P in torch.split(projected_P, list(widths), dim=-1)
    )
    return attend(q_HD, k_HD, v_HD, layout, causal=causal)


def _attend_padded(q_BTHD: Tensor, k_BSHD: Tensor, v_BSHD: Tensor, keys: Padded, *, causal: bool) -> Tensor:
    q_BHTD, k_BHSD, v_BHSD = (x.transpose(1, 2) for x in (q_BTHD, k_BSHD, v_BSHD))
    # Padding follows the tokens, so a query that is a token never sees it if it only looks back.
    mask_B1S = None if causal or keys.is_token_BL is None else keys.is_token_BL[:, None]
    if q_BTHD.device.type == "cpu" and q_BTHD.dtype == torch.bfloat16:
        return attend_reference(q_BHTD, k_BHSD, v_BHSD, mask_B1S, causal=causal).transpose(1, 2)
    mask = None if mask_B1S is None else mask_B1S[:, None]
    return F.scaled_dot_product_attention(q_BHTD, k_BHSD, v_BHSD, attn_mask=mask, is_causal=causal).transpose(1, 2)


def attend_reference(
    q_BHTD: Tensor, k_BHSD: Tensor, v_BHSD: Tensor, mask_BTS: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """Return softmax(q k^T / sqrt(D)) v for each head by the plain formula, which is also the oracle of the tests.

    Args:
        q_BHTD: queries.
        k_BHSD: keys.
        v_BHSD: values.
        mask_BTS: bool, broadcastable to [B, T, S], True where a query may look. None means everywhere.
        causal: True if query t sees keys 0..t only.

    Returns:
        Attended values, [B, H, T, D].
    """
    return attention_weights(q_BHTD, k_BHSD, mask_BTS, causal=causal).to(v_BHSD.dtype) @ v_BHSD


def attention_weights(
    q_BHTD: Tensor, k_BHSD: Tensor, mask_BTS: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """Return softmax(q k^T / sqrt(D)), the weight of each key for each query, [B, H, T, S].

    See `attend_reference` for the arguments.
    """
    scores_BHTS = attention_scores(q_BHTD, k_BHSD)
    if causal:
        before = torch.ones(scores_BHTS.shape[-2:], dtype=torch.bool, device=scores_BHTS.device).tril()
        mask_BTS = before[None] if mask_BTS is None else mask_BTS & before
    if mask_BTS is not None:
        scores_BHTS = scores_BHTS.masked_fill(~mask_BTS[:, None], float("-inf"))
    return scores_BHTS.softmax(-1)


def attention_scores(q_BHTD: Tensor, k_BHSD: Tensor) -> Tensor:
    """Return q k^T / sqrt(D), the logits of `attention_weights`, [B, H, T, S]."""
    return q_BHTD @ k_BHSD.transpose(-2, -1) / math.sqrt(q_BHTD.shape[-1])
