"""Layers of the Transformer (Vaswani et al. 2017, section 3).

Letters in names of tensors: M `d_model`, H heads, D width of a head (that of values may differ from that of queries and
keys), P width of all heads. What lies before the last letters is [B, L] where sentences are padded and [N] where they
are packed (`attention.py`): a layer need not know.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.batches.layout import Layout
from nmt_core.config import ModelConfig
from nmt_core.models.attention import attend

if torch.version.cuda:
    from nmt_core.models.cuda.residual import normed_residual

_DRAWS = 2**16


def residual_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype of the residual stream: bf16 or fp16 under autocast on a GPU, else fp32.

    What a GPU spends outside of matrix products goes by the bytes of the stream. Means, variances and sums of a norm
    are fp32 in any case.
    """
    if device.type == "cuda" and torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda")
    return torch.float32


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Positional encoding of section 3.5, [length, d_model]: sines in even columns, cosines in odd ones."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    encoding = torch.empty(length, d_model, dtype=torch.float64)
    encoding[:, 0::2] = torch.sin(position * frequency)
    encoding[:, 1::2] = torch.cos(position * frequency)
    return encoding.float()


def split_heads(x_P: Tensor, num_heads: int) -> Tensor:
    """[..., P] to [..., H, D]."""
    return x_P.view(*x_P.shape[:-1], num_heads, -1)


def join_heads(x_HD: Tensor) -> Tensor:
    """[..., H, D] to [..., P]."""
    return x_HD.flatten(-2)


def rotated(x_HD: Tensor, turns_D: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021, equations 15 and 34): each pair of columns turned by the angle of its place.

    Args:
        x_HD: queries or keys, [..., H, D].
        turns_D: sines in even columns, cosines in odd ones, as `sinusoidal_positions` gives them; [..., D].
    """
    sine, cosine = turns_D[..., None, 0::2], turns_D[..., None, 1::2]
    one, other = x_HD[..., 0::2], x_HD[..., 1::2]
    turned = torch.stack([one * cosine - other * sine, one * sine + other * cosine], dim=-1)
    return turned.flatten(-2).to(x_HD.dtype)


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself (section 3.2.2); the three projections are one matrix."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        key_width, value_width = (config.num_heads * width for width in config.head_widths)
        self.widths = (key_width, key_width, value_width)
        self.query_key_value = nn.Linear(config.d_model, sum(self.widths), bias=False)
        self.output = nn.Linear(value_width, config.d_model, bias=False)

    def project(self, x_M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each [..., H, D]."""
        q_P, k_P, v_P = self.query_key_value(x_M).split(self.widths, dim=-1)
        return split_heads(q_P, self.num_heads), split_heads(k_P, self.num_heads), split_heads(v_P, self.num_heads)

    def forward(self, x_M: Tensor, layout: Layout, turns_D: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """[..., M] to [..., M]; `turns_D` are rotary positions (see `rotated`)."""
        q_HD, k_HD, v_HD = self.project(x_M)
        if turns_D is not None:
            q_HD, k_HD = rotated(q_HD, turns_D), rotated(k_HD, turns_D)
        output: Tensor = self.output(join_heads(attend(q_HD, k_HD, v_HD, layout, causal=causal)))
        return output


class CrossAttention(nn.Module):
    """Multi-head attention of the target to the encoder's output."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        key_width, value_width = (config.num_heads * width for width in config.head_widths)
        self.widths = (key_width, value_width)
        self.query = nn.Linear(config.d_model, key_width, bias=False)
        self.key_value = nn.Linear(config.d_model, key_width + value_width, bias=False)
        self.output = nn.Linear(value_width, config.d_model, bias=False)

    def forward(self, x_M: Tensor, memory_M: Tensor, source: Layout, target: Layout) -> Tensor:
        """Target [..., M] and the encoder's output [..., M] to [..., M], as the target."""
        q_HD = split_heads(self.query(x_M), self.num_heads)
        k_P, v_P = self.key_value(memory_M).split(self.widths, dim=-1)
        k_HD, v_HD = split_heads(k_P, self.num_heads), split_heads(v_P, self.num_heads)
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
    """f(x W1 + b1) W2 + b2 (section 3.3), where f is ReLU, as published, or another activation.

    With SwiGLU, W1 is two matrices side by side, and one gates the other (Shazeer 2020, eq. 5 and 6, with biases).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.inner = nn.Linear(config.d_model, config.d_ff * (2 if config.activation == "swiglu" else 1))
        self.outer = nn.Linear(config.d_ff, config.d_model)

    def activate(self, x: Tensor) -> Tensor:
        """What `inner` gives to what `outer` reads: [..., inner width] to [..., d_ff]."""
        if self.activation == "relu":
            return F.relu(x)
        if self.activation == "gelu":
            return F.gelu(x)
        gate, linear = x.chunk(2, dim=-1)
        return F.silu(gate) * linear

    def forward(self, x: Tensor) -> Tensor:
        """[..., M] to [..., M]."""
        output: Tensor = self.outer(self.activate(self.inner(x)))
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
        is_half = x.dtype in {torch.bfloat16, torch.float16}
        if not self.pre_norm and x.device.type == "cuda" and is_half and x.dtype == output.dtype:
            probability = self.dropout.p if self.training else 0.0
            return normed_residual(x, output, self.norm.weight, self.norm.bias, probability, self.norm.eps)
        summed: Tensor = x + self.dropout(output)
        if self.pre_norm:
            return summed
        normed: Tensor = self.norm(summed)
        return normed.to(x.dtype)  # under autocast a norm gives fp32, whatever it reads


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.self_attention_frame = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_frame = Residual(config)

    def forward(self, x_M: Tensor, layout: Layout, turns_D: Tensor | None = None) -> Tensor:
        """[..., M] to [..., M]; `turns_D` are rotary positions (see `rotated`)."""
        frame = self.self_attention_frame
        x_M = frame.leave(x_M, self.self_attention(frame.enter(x_M), layout, turns_D))
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

    def forward(
        self, x_M: Tensor, memory_M: Tensor, source: Layout, target: Layout, turns_D: Tensor | None = None
    ) -> Tensor:
        """Target [..., M] and memory [..., M] to [..., M]; position t sees positions 0..t of the target.

        `turns_D` are the target's rotary positions (see `rotated`).
        """
        frame = self.self_attention_frame
        x_M = frame.leave(x_M, self.self_attention(frame.enter(x_M), target, turns_D, causal=True))
        frame = self.cross_attention_frame
        x_M = frame.leave(x_M, self.cross_attention(frame.enter(x_M), memory_M, source, target))
        frame = self.feed_forward_frame
        return frame.leave(x_M, self.feed_forward(frame.enter(x_M)))
