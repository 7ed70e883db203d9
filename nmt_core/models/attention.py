"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), behind one interface.

Attention is the only part of a model that depends on the layout of sentences in a tensor (`batches/layout.py`). All
other parts compute one token at a time.

Letters: see `nmt_core.models`. Here T counts queries, and S counts keys. In blocks, N counts blocks, X queries of a
block, and Y keys that a block sees.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt_core.batches.layout import Layout, Packed, Padded

if torch.cuda.is_available():  # importing Triton's kernels takes seconds
    from nmt_core.models.cuda.attention import attend_packed, attend_packed_self, fits


@dataclass(frozen=True)
class Sight:
    """Keys that a query of self-attention sees, besides the tokens of its sentence. By default, all."""

    causal: bool = False
    """True if query t sees keys 0..t only."""
    width: int = 0
    """Number of keys that a query sees: those around it, or the last ones if `causal`. An odd number. 0 means all."""

    @property
    def before(self) -> int:
        """Number of keys before its own that a query sees at most, with a width."""
        return self.width - 1 if self.causal else self.width // 2

    @property
    def after(self) -> int:
        """Number of keys after its own that a query sees at most, with a width."""
        return 0 if self.causal else self.width // 2

    def mask(self, length: int, device: torch.device) -> Tensor:
        """Return the positions that each one of a sequence sees, bool [L, L]."""
        every_LL = torch.ones((length, length), dtype=torch.bool, device=device)
        if not self.width:
            return every_LL.tril() if self.causal else every_LL
        return every_LL.tril(self.after) & ~every_LL.tril(-self.before - 1)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Layout,
    queries: Layout | None = None,
    *,
    causal: bool = False,
    width: int = 0,
) -> Tensor:
    """Return softmax(q k^T / sqrt(D)) v for each head, computed by the backend that is fast for these tensors.

    - `cuda/attention.py`: packed streams in half precision on CUDA, without any padding, if it supports the width of
      the heads. It does not support a `width`.
    - blocks: restricted attention in long sequences, so that the cost grows with the length and not with its square.
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
        width: number of keys that a query of such a sequence sees (see `Sight`). 0 means all.

    Returns:
        Tensor shaped like the queries, with the D of the values.
    """
    queries, sight = queries or keys, Sight(causal, width)
    if not isinstance(queries, Padded) and not isinstance(keys, Padded):
        has_kernel = q.device.type == "cuda" and not width and fits(q.dtype, q.shape[-1], v.shape[-1])
        if has_kernel and isinstance(queries, Packed) and isinstance(keys, Packed):
            return attend_packed(q, k, v, queries.sentence_N, queries.starts, keys.sentence_N, keys.starts, causal)
        (q_BTHD, _), (k_BSHD, padded), (v_BSHD, _) = queries.unpack(q), keys.unpack(k), keys.unpack(v)
        return queries.pack(_attend_padded(q_BTHD, k_BSHD, v_BSHD, padded, sight))
    assert isinstance(keys, Padded) and isinstance(queries, Padded)
    return _attend_padded(q, k, v, keys, sight)


def attend_self(
    projected_P: Tensor,
    widths: tuple[int, int, int],
    num_heads: int,
    layout: Layout,
    *,
    causal: bool = False,
    width: int = 0,
) -> Tensor:
    """Return `attend` for a sequence that attends to itself, whose queries, keys and values are side by side.

    Args:
        projected_P: queries of all heads, keys of all heads, and values of all heads, [..., P].
        widths: columns of the queries, of the keys and of the values.
        num_heads: number of heads.
        layout: layout of the sequence.
        causal: True if token t sees tokens 0..t only.
        width: number of tokens that a token sees (see `Sight`). 0 means all.

    Returns:
        Attended values, [..., H, D].
    """
    has_kernel = (
        projected_P.device.type == "cuda"
        and not width
        and fits(projected_P.dtype, widths[0] // num_heads, widths[2] // num_heads)
    )
    if has_kernel and isinstance(layout, Packed):
        qkv_N3HD = projected_P.view(-1, 3, num_heads, widths[0] // num_heads)
        return attend_packed_self(qkv_N3HD, layout.sentence_N, layout.starts, causal)
    q_HD, k_HD, v_HD = (
        x_P.view(*x_P.shape[:-1], num_heads, -1) for x_P in torch.split(projected_P, list(widths), dim=-1)
    )
    return attend(q_HD, k_HD, v_HD, layout, causal=causal, width=width)


def _attend_padded(q_BTHD: Tensor, k_BSHD: Tensor, v_BSHD: Tensor, keys: Padded, sight: Sight) -> Tensor:
    q_BHTD, k_BHSD, v_BHSD = (x.transpose(1, 2) for x in (q_BTHD, k_BSHD, v_BSHD))
    # Padding follows the tokens, so a query that is a token never sees it if it only looks back.
    mask_B1S = None if sight.causal or keys.is_token_BL is None else keys.is_token_BL[:, None]
    if sight.width:
        if q_BHTD.shape[2] > _BLOCKS_FROM * _block(sight):
            return _attend_blocks(q_BHTD, k_BHSD, v_BHSD, mask_B1S, sight).transpose(1, 2)
        mask_BTS = visible(mask_B1S, sight, q_BHTD.shape[2], q_BHTD.device)
        return _attend_masked(q_BHTD, k_BHSD, v_BHSD, mask_BTS).transpose(1, 2)
    if q_BTHD.device.type == "cpu" and q_BTHD.dtype == torch.bfloat16:
        return attend_reference(q_BHTD, k_BHSD, v_BHSD, mask_B1S, causal=sight.causal).transpose(1, 2)
    mask = None if mask_B1S is None else mask_B1S[:, None]
    return F.scaled_dot_product_attention(q_BHTD, k_BHSD, v_BHSD, attn_mask=mask, is_causal=sight.causal).transpose(
        1, 2
    )


def _attend_masked(q_BHTD: Tensor, k_BHSD: Tensor, v_BHSD: Tensor, mask_BTS: Tensor) -> Tensor:
    if q_BHTD.device.type == "cpu" and q_BHTD.dtype == torch.bfloat16:
        return attend_reference(q_BHTD, k_BHSD, v_BHSD, mask_BTS)
    return F.scaled_dot_product_attention(q_BHTD, k_BHSD, v_BHSD, attn_mask=mask_BTS[:, None])


def visible(mask_B1S: Tensor | None, sight: Sight, length: int, device: torch.device) -> Tensor:
    """Return where each position of sequences looks, bool [B, L, L] or [1, L, L].

    Each position sees itself, even padding, because the softmax over nothing is not a number.

    Args:
        mask_B1S: True at tokens, or None if no query that matters sees padding.
        sight: positions that a position sees, with a width.
        length: L.
        device: device of the result.
    """
    near_LL = sight.mask(length, device)
    if mask_B1S is None:
        return near_LL[None]
    own_LL = Sight(width=1).mask(length, device)
    return near_LL & (mask_B1S | own_LL)


_LEAST_BLOCK = 32
"""Least number of queries in a block. Smaller products are slow for their size."""
_BLOCKS_FROM = 4
"""Number of blocks from which blocks are faster than one masked product."""


def _block(sight: Sight) -> int:
    return max(_LEAST_BLOCK, sight.width)


def _attend_blocks(q_BHTD: Tensor, k_BHSD: Tensor, v_BHSD: Tensor, mask_B1S: Tensor | None, sight: Sight) -> Tensor:
    """Attend in blocks of queries, each to the keys that any of its queries sees.

    Args:
        q_BHTD: queries.
        k_BHSD: keys of the same sequences.
        v_BHSD: values.
        mask_B1S: True at tokens, or None if no query that matters sees padding.
        sight: keys that a query sees, with a width.
    """
    block, length = _block(sight), q_BHTD.shape[2]
    spare, window = -length % block, sight.before + block + sight.after
    around = (0, 0, sight.before, sight.after + spare)
    q_BHNXD = F.pad(q_BHTD, (0, 0, 0, spare)).unfold(2, block, block).transpose(-1, -2)
    k_BHNYD, v_BHNYD = (F.pad(x, around).unfold(2, window, block).transpose(-1, -2) for x in (k_BHSD, v_BHSD))
    is_key_BS = (
        torch.ones((1, length), dtype=torch.bool, device=q_BHTD.device) if mask_B1S is None else mask_B1S.squeeze(1)
    )
    is_key_BNY = F.pad(is_key_BS, around[2:]).unfold(1, window, block)
    ones_XY = torch.ones((block, window), dtype=torch.bool, device=q_BHTD.device)
    near_XY = ones_XY.tril(sight.before + sight.after) & ~ones_XY.tril(-1)
    own_XY = ones_XY.tril(sight.before) & ~ones_XY.tril(sight.before - 1)
    mask_B1NXY = (near_XY & (is_key_BNY[:, :, None] | own_XY))[:, None]
    scores_BHNXY = attention_scores(q_BHNXD, k_BHNYD).masked_fill(~mask_B1NXY, float("-inf"))
    attended_BHNXD = scores_BHNXY.softmax(-1).to(v_BHSD.dtype) @ v_BHNYD
    return attended_BHNXD.flatten(2, 3)[:, :, :length]


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
