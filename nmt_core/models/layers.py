"""Layers of the Transformer (Vaswani et al. 2017, section 3).

Letters in names of tensors: M `d_model`, H heads, D width of a head. What lies before the last letters is [B, L] where
sentences are padded and [N] where they are packed (`attention.py`): a layer need not know.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.batches.layout import Layout
from nmt_core.config import ModelConfig
from nmt_core.models.attention import attend

_DRAWS = 2**16


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Positional encoding of section 3.5, [length, d_model]: sines in even columns, cosines in odd ones."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    encoding = torch.empty(length, d_model, dtype=torch.float64)
    encoding[:, 0::2] = torch.sin(position * frequency)
    encoding[:, 1::2] = torch.cos(position * frequency)
    return encoding.float()


def split_heads(x_M: Tensor, num_heads: int) -> Tensor:
    """[..., M] to [..., H, D]."""
    return x_M.view(*x_M.shape[:-1], num_heads, -1)


def join_heads(x_HD: Tensor) -> Tensor:
    """[..., H, D] to [..., M]."""
    return x_HD.flatten(-2)


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself (section 3.2.2); the three projections are one matrix."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.query_key_value = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.output = nn.Linear(config.d_model, config.d_model, bias=False)

    def project(self, x_M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each [..., H, D]."""
        q_M, k_M, v_M = self.query_key_value(x_M).chunk(3, dim=-1)
        return split_heads(q_M, self.num_heads), split_heads(k_M, self.num_heads), split_heads(v_M, self.num_heads)

    def forward(self, x_M: Tensor, layout: Layout, *, causal: bool = False) -> Tensor:
        """[..., M] to [..., M]."""
        output: Tensor = self.output(join_heads(attend(*self.project(x_M), layout, causal=causal)))
        return output


class CrossAttention(nn.Module):
    """Multi-head attention of the target to the encoder's output."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.query = nn.Linear(config.d_model, config.d_model, bias=False)
        self.key_value = nn.Linear(config.d_model, 2 * config.d_model, bias=False)
        self.output = nn.Linear(config.d_model, config.d_model, bias=False)

    def forward(self, x_M: Tensor, memory_M: Tensor, source: Layout, target: Layout) -> Tensor:
        """Target [..., M] and the encoder's output [..., M] to [..., M], as the target."""
        q_HD = split_heads(self.query(x_M), self.num_heads)
        k_M, v_M = self.key_value(memory_M).chunk(2, dim=-1)
        k_HD, v_HD = split_heads(k_M, self.num_heads), split_heads(v_M, self.num_heads)
        output: Tensor = self.output(join_heads(attend(q_HD, k_HD, v_HD, source, target)))
        return output


class Dropout(nn.Dropout):
    """Inverted dropout; on the CPU several times faster than PyTorch's own, which draws one number after the other.

    There it draws 16 bits for each value, so the probability is a multiple of 2^-16: the nearest one to `p`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape; each value is zero with probability `p` in training, and scaled up otherwise."""
        if not self.training or self.p == 0 or x.device.type != "cpu":
            return super().forward(x)
        dropped = round(self.p * _DRAWS)
        seed = int(torch.empty((), dtype=torch.int64).random_())  # so that PyTorch's own seed decides what is drawn
        words = np.random.SFC64(seed).random_raw(-(-x.numel() // 4))
        draws = torch.from_numpy(words.view(np.int16)[: x.numel()]).view(x.shape)
        kept = draws >= dropped - _DRAWS // 2
        return x * kept.to(x.dtype).mul_(_DRAWS / (_DRAWS - dropped))


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

    def forward(self, x_M: Tensor, layout: Layout) -> Tensor:
        """[..., M] to [..., M]."""
        frame = self.self_attention_frame
        x_M = frame.leave(x_M, self.self_attention(frame.enter(x_M), layout))
        frame = self.feed_forward_frame
        return frame.leave(x_M, self.feed_forward(frame.enter(x_M)))


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

    def forward(self, x_M: Tensor, memory_M: Tensor, source: Layout, target: Layout) -> Tensor:
        """Target [..., M] and memory [..., M] to [..., M]; position t sees positions 0..t of the target."""
        frame = self.self_attention_frame
        x_M = frame.leave(x_M, self.self_attention(frame.enter(x_M), target, causal=True))
        frame = self.cross_attention_frame
        x_M = frame.leave(x_M, self.cross_attention(frame.enter(x_M), memory_M, source, target))
        frame = self.feed_forward_frame
        return frame.leave(x_M, self.feed_forward(frame.enter(x_M)))
