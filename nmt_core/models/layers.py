"""Layers of the Transformer (Vaswani et al. 2017, section 3).

Letters: see `nmt_core.models`. The layers do not depend on the dimensions before the last letters, which are [B, L]
where sentences are padded and [N] where they are packed (`attention.py`).
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.batches.layout import Layout, Padded
from nmt_core.config import ModelConfig
from nmt_core.models.attention import attend, attend_self

if torch.cuda.is_available():  # importing Triton's kernels takes seconds
    from nmt_core.models.cuda.feed_forward import linear_relu
    from nmt_core.models.cuda.residual import normed_residual

_DRAWS = 2**16


def residual_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype of the residual stream: bf16 or fp16 under autocast on a GPU, else fp32.

    Outside of matrix products, the time of a GPU depends on the bytes of the stream. Means, variances and sums of a
    norm are fp32 in any case.
    """
    if device.type == "cuda" and torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda")
    return torch.float32


def _has_kernels(x: Tensor) -> bool:
    """Return True for a tensor of half precision on a GPU, for which `nmt_core.models.cuda` has kernels."""
    return x.device.type == "cuda" and x.dtype in {torch.bfloat16, torch.float16}


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Return the positional encoding of Vaswani et al. (2017, section 3.5), [length, d_model].

    Even columns are sines, and odd columns are cosines.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    encoding = torch.empty(length, d_model, dtype=torch.float64)
    encoding[:, 0::2] = torch.sin(position * frequency)
    encoding[:, 1::2] = torch.cos(position * frequency)
    return encoding.float()


def split_heads(x_P: Tensor, num_heads: int) -> Tensor:
    """Reshape [..., P] to [..., H, D]."""
    return x_P.view(*x_P.shape[:-1], num_heads, -1)


def join_heads(x_HD: Tensor) -> Tensor:
    """Reshape [..., H, D] to [..., P]."""
    return x_HD.flatten(-2)


def rotated(x_HD: Tensor, turns_D: Tensor) -> Tensor:
    """Turn each pair of columns by the angle of its place: rotary positions (Su et al. 2021, equations 15 and 34).

    Args:
        x_HD: queries or keys, [..., H, D].
        turns_D: sines in even columns, cosines in odd ones, as `sinusoidal_positions` returns them; [..., D].
    """
    sine, cosine = turns_D[..., None, 0::2], turns_D[..., None, 1::2]
    one, other = x_HD[..., 0::2], x_HD[..., 1::2]
    turned = torch.stack([one * cosine - other * sine, one * sine + other * cosine], dim=-1)
    return turned.flatten(-2).to(x_HD.dtype)


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself (Vaswani et al. 2017, section 3.2.2).

    The three projections are one matrix. `model.attention_width` restricts it (Vaswani et al. 2017, section 4).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.width = config.attention_width
        key_width, value_width = (config.num_heads * width for width in config.head_widths)
        self.widths = (key_width, key_width, value_width)
        self.query_key_value = nn.Linear(config.d_model, sum(self.widths), bias=config.attention_bias)
        self.output = nn.Linear(value_width, config.d_model, bias=config.attention_bias)

    def project(self, x_M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, each [..., H, D]."""
        q_P, k_P, v_P = self.query_key_value(x_M).split(self.widths, dim=-1)
        return split_heads(q_P, self.num_heads), split_heads(k_P, self.num_heads), split_heads(v_P, self.num_heads)

    def forward(self, x_M: Tensor, layout: Layout, turns_D: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """Map [..., M] to [..., M]. `turns_D` are rotary positions (see `rotated`)."""
        if turns_D is None:
            projected_P = self.query_key_value(x_M)
            attended_HD = attend_self(projected_P, self.widths, self.num_heads, layout, causal=causal, width=self.width)
        else:
            q_HD, k_HD, v_HD = self.project(x_M)
            turned = rotated(q_HD, turns_D), rotated(k_HD, turns_D)
            attended_HD = attend(*turned, v_HD, layout, causal=causal, width=self.width)
        output: Tensor = self.output(join_heads(attended_HD))
        return output


class CrossAttention(nn.Module):
    """Multi-head attention of the target to the encoder's output."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        key_width, value_width = (config.num_heads * width for width in config.head_widths)
        self.widths = (key_width, value_width)
        self.query = nn.Linear(config.d_model, key_width, bias=config.attention_bias)
        self.key_value = nn.Linear(config.d_model, key_width + value_width, bias=config.attention_bias)
        self.output = nn.Linear(value_width, config.d_model, bias=config.attention_bias)

    def project(self, x_M: Tensor, memory_M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries of the target, and keys and values of the encoder's output, each [..., H, D]."""
        q_HD = split_heads(self.query(x_M), self.num_heads)
        k_P, v_P = self.key_value(memory_M).split(self.widths, dim=-1)
        return q_HD, split_heads(k_P, self.num_heads), split_heads(v_P, self.num_heads)

    def forward(self, x_M: Tensor, memory_M: Tensor, source: Layout, target: Layout) -> Tensor:
        """Map the target [..., M] and the encoder's output [..., M] to [..., M], shaped like the target."""
        return self.attend(*self.project(x_M, memory_M), source, target)

    def attend(self, q_HD: Tensor, k_HD: Tensor, v_HD: Tensor, source: Layout, target: Layout) -> Tensor:
        """Return the output of the sub-layer, shaped like the target [..., M], for the results of `project`."""
        output: Tensor = self.output(join_heads(attend(q_HD, k_HD, v_HD, source, target)))
        return output


class Ssru(nn.Module):
    """Simpler simple recurrent unit, SSRU, in place of the decoder's self-attention (Kim et al. 2019).

    The state of position t is c_t = f_t c_{t-1} + (1 - f_t) W x_t, with the forget gate f_t = sigmoid(W_f x_t + b_f),
    and the output is ReLU(c_t). All products are elementwise, so all positions are computed at once in training.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.input_gate = nn.Linear(config.d_model, 2 * config.d_model, bias=False)
        """W and W_f side by side."""
        self.forget_bias = nn.Parameter(torch.zeros(config.d_model))

    def gate(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """Return f_t and (1 - f_t) W x_t, both [..., M] in fp32, for the output of `input_gate`, [..., 2 M]."""
        x_M, gate_M = projected.float().chunk(2, dim=-1)
        forget_M = torch.sigmoid(gate_M + self.forget_bias.float())
        return forget_M, x_M - forget_M * x_M

    def forward(self, x_M: Tensor, layout: Layout) -> Tensor:
        """Map the target [..., M] to [..., M]. Position t reads positions 0..t."""
        forget_M, new_M = self.gate(self.input_gate(x_M))
        if isinstance(layout, Padded):
            state_M = linear_recurrence(forget_M, new_M, new_M.shape[1])
        else:
            (forget_BTM, _), (new_BTM, _) = layout.unpack(forget_M), layout.unpack(new_M)
            state_M = layout.pack(linear_recurrence(forget_BTM, new_BTM, layout.longest))
        return F.relu(state_M).to(x_M.dtype)


def linear_recurrence(factor_BTM: Tensor, new_BTM: Tensor, longest: int) -> Tensor:
    """Return c_t = factor_t c_{t-1} + new_t for all positions, [B, T, M], with c_{-1} = 0.

    Each pass combines spans of positions that are twice as long as before (Hillis and Steele 1986), so T positions take
    log2(T) passes. Nothing is divided, so nothing overflows however small the factors are.

    Args:
        factor_BTM: factors, from 0 to 1.
        new_BTM: what each position adds.
        longest: T, or a larger number where T is not known yet.
    """
    state_BTM, distance = new_BTM, 1
    while distance < longest:
        before, place = (0, 0, distance, 0), slice(new_BTM.shape[1])
        state_BTM = state_BTM + factor_BTM * F.pad(state_BTM, before)[:, place]
        factor_BTM = factor_BTM * F.pad(factor_BTM, before)[:, place]
        distance *= 2
    return state_BTM


class Dropout(nn.Dropout):
    """Inverted dropout, on the CPU several times faster than PyTorch's own, which draws one number after the other.

    On the CPU it draws 16 bits for each value, so the probability is the multiple of 2^-16 that is nearest to `p`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape.

        In training, each value is zero with probability `p`, and scaled up otherwise.
        """
        if not self.training or self.p == 0 or x.device.type != "cpu":
            return super().forward(x)
        dropped = round(self.p * _DRAWS)
        seed = int(torch.empty((), dtype=torch.int64).random_())  # so that PyTorch's own seed decides what is drawn
        words = np.random.SFC64(seed).random_raw(-(-x.numel() // 4))
        draws = torch.from_numpy(words.view(np.int16)[: x.numel()]).view(x.shape)
        kept = draws >= dropped - _DRAWS // 2
        return x * kept.to(x.dtype).mul_(_DRAWS / (_DRAWS - dropped))


class FeedForward(nn.Module):
    """Feed-forward network f(x W1 + b1) W2 + b2 (Vaswani et al. 2017, section 3.3).

    As published, f is ReLU. It may be another activation. With SwiGLU, W1 is two matrices side by side, and one gates
    the other (Shazeer 2020, equations 5 and 6, with biases).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.inner = nn.Linear(config.d_model, config.d_ff * (2 if config.activation == "swiglu" else 1))
        self.outer = nn.Linear(config.d_ff, config.d_model)

    def activate(self, x: Tensor) -> Tensor:
        """Map the output of `inner`, [..., inner width], to the input of `outer`, [..., d_ff]."""
        if self.activation == "relu":
            return F.relu(x)
        if self.activation == "gelu":
            return F.gelu(x)
        if self.activation == "swish":
            return F.silu(x)
        gate, linear = x.chunk(2, dim=-1)
        return F.silu(gate) * linear

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., M] to [..., M]."""
        if self.activation == "relu" and _has_kernels(x):
            activated = linear_relu(x, self.inner.weight.to(x.dtype), self.inner.bias.to(x.dtype))
        else:
            activated = self.activate(self.inner(x))
        output: Tensor = self.outer(activated)
        return output


class Residual(nn.Module):
    """Frame of every sub-layer: dropout on its output, the residual sum, and layer norm after or before it.

    Post-norm, as published (Vaswani et al. 2017, sections 3.1 and 5.4): norm(x + dropout(sublayer(x))). Pre-norm: x +
    dropout(sublayer(norm(x))).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    def enter(self, x: Tensor) -> Tensor:
        """Return the input of the sub-layer."""
        return self.norm(x).to(x.dtype) if self.pre_norm else x  # under autocast a norm returns fp32 for any input

    def leave(self, x: Tensor, output: Tensor) -> Tensor:
        """Return the input of the next sub-layer, from the input and the output of this one."""
        if not self.pre_norm and _has_kernels(x) and x.dtype == output.dtype:
            probability = self.dropout.p if self.training else 0.0
            return normed_residual(x, output, self.norm.weight, self.norm.bias, probability, self.norm.eps)
        summed: Tensor = x + self.dropout(output)
        if self.pre_norm:
            return summed
        normed: Tensor = self.norm(summed)
        return normed.to(x.dtype)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.self_attention_frame = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_frame = Residual(config)

    def forward(self, x_M: Tensor, layout: Layout, turns_D: Tensor | None = None) -> Tensor:
        """Map [..., M] to [..., M]. `turns_D` are rotary positions (see `rotated`)."""
        frame = self.self_attention_frame
        x_M = frame.leave(x_M, self.self_attention(frame.enter(x_M), layout, turns_D))
        frame = self.feed_forward_frame
        return frame.leave(x_M, self.feed_forward(frame.enter(x_M)))


class DecoderLayer(nn.Module):
    """Self-attention or a recurrent unit over the target so far, attention to the source, and feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.recurrence = Ssru(config) if config.decoder_autoregression == "ssru" else None
        """Recurrent unit, or None with self-attention."""
        if not self.recurrence:
            self.self_attention = SelfAttention(config)
        self.self_attention_frame = Residual(config)
        self.cross_attention = CrossAttention(config)
        self.cross_attention_frame = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_frame = Residual(config)

    def forward(
        self,
        x_M: Tensor,
        memory_M: Tensor,
        source: Layout,
        target: Layout,
        turns_D: Tensor | None = None,
        aligning_heads: int = 0,
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        """Map the target [..., M] and the memory [..., M] to [..., M]. Position t sees positions 0..t of the target.

        `turns_D` are the target's rotary positions (see `rotated`). A recurrent unit does not need them. With
        `aligning_heads`, the queries and keys [..., H, D] of this many heads of the attention to the source are
        returned as well.
        """
        frame = self.self_attention_frame
        entered_M = frame.enter(x_M)
        read_M = (
            self.recurrence(entered_M, target)
            if self.recurrence
            else self.self_attention(entered_M, target, turns_D, causal=True)
        )
        x_M = frame.leave(x_M, read_M)
        frame = self.cross_attention_frame
        q_HD, k_HD, v_HD = self.cross_attention.project(frame.enter(x_M), memory_M)
        x_M = frame.leave(x_M, self.cross_attention.attend(q_HD, k_HD, v_HD, source, target))
        frame = self.feed_forward_frame
        x_M = frame.leave(x_M, self.feed_forward(frame.enter(x_M)))
        return (x_M, q_HD[..., :aligning_heads, :], k_HD[..., :aligning_heads, :]) if aligning_heads else x_M
