"""Layers of the Transformer (Vaswani et al. 2017, section 3).

Letters in names of tensors: B sentences, T target positions, S source positions, L either, H heads, D width of a head,
M `d_model`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.config import ModelConfig
from nmt_core.models.attention import attend


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Positional encoding of section 3.5, [length, d_model]: sines in even columns, cosines in odd ones."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    encoding = torch.empty(length, d_model, dtype=torch.float64)
    encoding[:, 0::2] = torch.sin(position * frequency)
    encoding[:, 1::2] = torch.cos(position * frequency)
    return encoding.float()


def split_heads(x_BLM: Tensor, num_heads: int) -> Tensor:
    """[B, L, M] to [B, H, L, D]."""
    return x_BLM.view(*x_BLM.shape[:2], num_heads, -1).transpose(1, 2)


def join_heads(x_BHLD: Tensor) -> Tensor:
    """[B, H, L, D] to [B, L, M]."""
    return x_BHLD.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself (section 3.2.2); the three projections are one matrix."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.query_key_value = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.output = nn.Linear(config.d_model, config.d_model, bias=False)

    def project(self, x_BLM: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each [B, H, L, D]."""
        q_BLM, k_BLM, v_BLM = self.query_key_value(x_BLM).chunk(3, dim=-1)
        return (
            split_heads(q_BLM, self.num_heads),
            split_heads(k_BLM, self.num_heads),
            split_heads(v_BLM, self.num_heads),
        )

    def forward(self, x_BLM: Tensor, mask_BLL: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """[B, L, M] to [B, L, M]; the mask is True where a position may be looked at."""
        attended_BHLD = attend(*self.project(x_BLM), mask_BLL, causal=causal)
        output: Tensor = self.output(join_heads(attended_BHLD))
        return output


class CrossAttention(nn.Module):
    """Multi-head attention of the target to the encoder's output."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.query = nn.Linear(config.d_model, config.d_model, bias=False)
        self.key_value = nn.Linear(config.d_model, 2 * config.d_model, bias=False)
        self.output = nn.Linear(config.d_model, config.d_model, bias=False)

    def project_memory(self, memory_BSM: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the source, each [B, H, S, D]; the same at every step of decoding."""
        k_BSM, v_BSM = self.key_value(memory_BSM).chunk(2, dim=-1)
        return split_heads(k_BSM, self.num_heads), split_heads(v_BSM, self.num_heads)

    def forward(self, x_BTM: Tensor, k_BHSD: Tensor, v_BHSD: Tensor, mask_BTS: Tensor | None) -> Tensor:
        """[B, T, M] to [B, T, M]; the mask is True where a source position may be looked at."""
        q_BHTD = split_heads(self.query(x_BTM), self.num_heads)
        output: Tensor = self.output(join_heads(attend(q_BHTD, k_BHSD, v_BHSD, mask_BTS)))
        return output


class Dropout(nn.Dropout):
    """Inverted dropout; on the CPU three times faster than PyTorch's own, which draws one number after the other."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape; each value is zero with probability `p` in training, and scaled up otherwise."""
        if not self.training or self.p == 0 or x.device.type != "cpu":
            return super().forward(x)
        kept = torch.rand(x.shape) >= self.p
        return x * kept.to(x.dtype).mul_(1 / (1 - self.p))


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2 (section 3.3)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        """[..., M] to [..., M]."""
        output: Tensor = self.outer(F.relu(self.inner(x)))
        return output


class Residual(nn.Module):
    """The frame of every sub-layer: dropout on its output, the residual sum, and layer norm after or before it.

    Post-norm, as published (section 3.1 and 5.4): norm(x + dropout(sublayer(x))).
    Pre-norm: x + dropout(sublayer(norm(x))).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)

    def enter(self, x: Tensor) -> Tensor:
        """What the sub-layer reads."""
        normed: Tensor = self.norm(x) if self.pre_norm else x
        return normed

    def leave(self, x: Tensor, output: Tensor) -> Tensor:
        """What the next sub-layer gets, from this one's input and output."""
        summed = x + self.dropout(output)
        normed: Tensor = summed if self.pre_norm else self.norm(summed)
        return normed


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.self_attention_frame = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_frame = Residual(config)

    def forward(self, x_BSM: Tensor, mask_BSS: Tensor | None) -> Tensor:
        """[B, S, M] to [B, S, M]."""
        frame = self.self_attention_frame
        x_BSM = frame.leave(x_BSM, self.self_attention(frame.enter(x_BSM), mask_BSS))
        frame = self.feed_forward_frame
        return frame.leave(x_BSM, self.feed_forward(frame.enter(x_BSM)))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the source, and feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.self_attention_frame = Residual(config)
        self.cross_attention = CrossAttention(config)
        self.cross_attention_frame = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_frame = Residual(config)

    def forward(self, x_BTM: Tensor, memory_BSM: Tensor, mask_BTS: Tensor | None) -> Tensor:
        """[B, T, M] to [B, T, M]; position t sees positions 0..t of the target."""
        frame = self.self_attention_frame
        x_BTM = frame.leave(x_BTM, self.self_attention(frame.enter(x_BTM), causal=True))
        frame = self.cross_attention_frame
        k_BHSD, v_BHSD = self.cross_attention.project_memory(memory_BSM)
        x_BTM = frame.leave(x_BTM, self.cross_attention(frame.enter(x_BTM), k_BHSD, v_BHSD, mask_BTS))
        frame = self.feed_forward_frame
        return frame.leave(x_BTM, self.feed_forward(frame.enter(x_BTM)))
