"""Compute the Transformer over whole sentences, and return its attention for display and for word alignments.

The target is given, as in training (teacher forcing), so one pass computes every position. The graph uses the same
`Kernels` and the same matrix products as the graphs that translate, so it needs no weights of its own.

Letters: see `nmt_core.models`. Here N counts layers.
"""

import math
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.config import Side
from nmt_core.models.attention import Sight, attention_weights, visible
from nmt_core.models.kernels import Graph, Kernels
from nmt_core.models.layers import DecoderLayer, EncoderLayer, Ssru, join_heads, linear_recurrence, split_heads
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import PAD_ID

_TINY = 1e-30


class AttentionView(Graph):
    """Graph that returns all that a pass shows (`search/attention.py` names the outputs).

    Args:
        kernels: kernels to compute with, which hold the model in evaluation mode.
        aligning_layers: number of decoder layers, counted from the last, whose attention is averaged for alignments.
    """

    model: Transformer

    def __init__(self, kernels: Kernels, aligning_layers: int) -> None:
        super().__init__(kernels)
        self.aligning_layers = aligning_layers

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> tuple[Tensor, ...]:
        """Compute one pass, and return its embeddings and its attention.

        Args:
            source_BS: source ids with end mark, padded.
            target_BT: target ids that begin with <s>, padded.

        Returns:
            First `source_embedding` [B, S, M] and `source_positions` [S, M], then `target_embedding` [B, T, M] and
            `target_positions` [T, M]. Their sums are the inputs of the first layers. Then `encoder_attention` [B, N, H,
            S, S], `decoder_attention` [B, N, H, T, T] (see `_read` for recurrent layers) and `cross_attention` [B, N,
            H, T, S]. Last, for alignments, `alignment` [B, T, S]. Rows of padding have no meaning.
        """
        mask_BS = source_BS != PAD_ID
        source, target = self.embed(source_BS, "source"), self.embed(target_BT, "target")
        memory_BSM, of_encoder = self.encode(source[0] + source[1], mask_BS)
        cross, x_BTM = self.cross(memory_BSM), target[0] + target[1]
        of_decoder, of_cross = list[Tensor](), list[Tensor]()
        for number, layer in enumerate(cast(list[DecoderLayer], self.model.decoder)):
            x_BTM, weights_BHTT = self.attend_past(x_BTM, layer)
            weights_BHTS = self.cross_weights(x_BTM, layer, cross[2 * number], mask_BS)
            x_BTM = self.after_cross(x_BTM, layer, weights_BHTS, cross[2 * number + 1])
            of_decoder.append(weights_BHTT)
            of_cross.append(weights_BHTS)
        stacked = [torch.stack(weights, dim=1) for weights in (of_encoder, of_decoder, of_cross)]
        return (*source, *target, *stacked, self.alignment(of_cross))

    def alignment(self, of_cross: list[Tensor]) -> Tensor:
        """Return the attention that aligns words, [B, T, S], from the cross-attention of each layer, [B, H, T, S].

        Heads that have learned alignments align the token that a position reads. Row t is then the attention of
        position t + 1, which reads the token that position t predicts. In other models it is the mean over the last
        layers.
        """
        config = self.model.config
        if not config.alignment_layer:
            return torch.cat(of_cross[-self.aligning_layers :], dim=1).mean(dim=1)
        learned_BTS = of_cross[config.alignment_layer - 1][:, : config.alignment_heads].mean(dim=1)
        return torch.cat([learned_BTS[:, 1:], learned_BTS[:, -1:]], dim=1)

    def embed(self, ids_BL: Tensor, side: Side) -> tuple[Tensor, Tensor]:
        """Return the embeddings times sqrt(d_model), [B, L, M], and the positions to add to them, [L, M].

        Positions are zeros if the model uses rotary positions.
        """
        x_BLM = self.kernels.embed(ids_BL, side) * math.sqrt(self.model.config.d_model)
        if self.model.turns:
            return x_BLM, torch.zeros_like(x_BLM[0])
        return x_BLM, self.model.positions_LM[: ids_BL.shape[1]]

    def encode(self, x_BSM: Tensor, mask_BS: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the memory [B, S, M] of an embedded source, and the weights of each layer, [B, H, S, S]."""
        found = list[Tensor]()
        for layer in cast(list[EncoderLayer], self.model.encoder):
            frame, attention = layer.self_attention_frame, layer.self_attention
            projected = self.kernels.linear(frame.enter(x_BSM), attention.query_key_value)
            attended_BSP, weights_BHSS = self._attend_self(projected, mask_BS[:, None], causal=False)
            x_BSM = frame.leave(x_BSM, self.kernels.linear(attended_BSP, attention.output))
            x_BSM = self._feed_forward(x_BSM, layer)
            found.append(weights_BHSS)
        return self.model.encoder_norm(x_BSM), found

    def cross(self, memory_BSM: Tensor) -> list[Tensor]:
        """Return [key, value] of layer 0, of layer 1 and so on, each [B, H, S, D], for the memory.

        One matrix product computes them all, as in `EncoderGraph`.
        """
        layers = [layer.cross_attention.key_value for layer in cast(list[DecoderLayer], self.model.decoder)]
        widths = list(self.kernels.widths[1:]) * len(layers)
        return [self._heads(x_BSP) for x_BSP in torch.split(self.kernels.linear(memory_BSM, *layers), widths, dim=-1)]

    def attend_past(self, x_BTM: Tensor, layer: DecoderLayer) -> tuple[Tensor, Tensor]:
        """Apply the first sub-layer of the decoder. Return its output and its weights, [B, H, T, T]."""
        frame = layer.self_attention_frame
        if layer.recurrence:
            read_BTM, weights_BHTT = self._read(frame.enter(x_BTM), layer.recurrence)
            return frame.leave(x_BTM, read_BTM), weights_BHTT
        attention = layer.self_attention
        projected = self.kernels.linear(frame.enter(x_BTM), attention.query_key_value)
        attended_BTP, weights_BHTT = self._attend_self(projected, None, causal=True)
        return frame.leave(x_BTM, self.kernels.linear(attended_BTP, attention.output)), weights_BHTT

    def cross_weights(self, x_BTM: Tensor, layer: DecoderLayer, key_BHSD: Tensor, mask_BS: Tensor) -> Tensor:
        """Return the weights of the second sub-layer of the decoder, [B, H, T, S]."""
        q_BTP = self.kernels.linear(layer.cross_attention_frame.enter(x_BTM), layer.cross_attention.query)
        return attention_weights(self._heads(q_BTP), key_BHSD, mask_BS[:, None])

    def after_cross(self, x_BTM: Tensor, layer: DecoderLayer, weights_BHTS: Tensor, value_BHSD: Tensor) -> Tensor:
        """Apply the rest of the layer: the weights of the second sub-layer, and the feed-forward sub-layer."""
        attended_BTP = join_heads((weights_BHTS @ value_BHSD).transpose(1, 2))
        x_BTM = layer.cross_attention_frame.leave(
            x_BTM, self.kernels.linear(attended_BTP, layer.cross_attention.output)
        )
        return self._feed_forward(x_BTM, layer)

    def _read(self, x_BTM: Tensor, recurrence: Ssru) -> tuple[Tensor, Tensor]:
        """Return the output of a recurrent unit [B, T, M], and the part of each position in each state, [B, H, T, T].

        Channels have parts of their own. Their mean over H groups of neighbouring channels is returned. A row adds up
        to less than 1, because the state before the first position is zero.
        """
        forget_BTM, new_BTM = recurrence.gate(self.kernels.linear(x_BTM, recurrence.input_gate))
        state_BTM = linear_recurrence(forget_BTM, new_BTM, len(self.model.positions_LM))
        length = x_BTM.shape[1]
        before_TT = torch.ones((length, length), dtype=forget_BTM.dtype, device=forget_BTM.device).tril()
        # The product of the factors after a position, by sums of logarithms
        summed_BTM = before_TT @ (forget_BTM + _TINY).log()
        part_BTTM = (summed_BTM[:, :, None] - summed_BTM[:, None]).exp() * (1 - forget_BTM)[:, None]
        part_BTTH = split_heads(part_BTTM, self.kernels.num_heads).mean(dim=-1)
        return F.relu(state_BTM), part_BTTH.permute(0, 3, 1, 2).masked_fill(before_TT == 0, 0.0)

    def _attend_self(self, projected: Tensor, mask: Tensor | None, *, causal: bool) -> tuple[Tensor, Tensor]:
        if self.model.turns:
            projected = self.kernels.turn(projected, self.model.positions_LM[: projected.shape[1]])
        q_BHLD, k_BHLD, v_BHLD = (self._heads(x_BLP) for x_BLP in self.kernels.split(projected))
        if width := self.model.config.attention_width:
            mask = visible(mask, Sight(causal, width), projected.shape[1], projected.device)
        weights_BHLL = attention_weights(q_BHLD, k_BHLD, mask, causal=causal and not width)
        return join_heads((weights_BHLL @ v_BHLD).transpose(1, 2)), weights_BHLL

    def _heads(self, x_BLP: Tensor) -> Tensor:
        return split_heads(x_BLP, self.kernels.num_heads).transpose(1, 2)

    def _feed_forward(self, x_BLM: Tensor, layer: EncoderLayer | DecoderLayer) -> Tensor:
        frame = layer.feed_forward_frame
        return frame.leave(x_BLM, self.kernels.feed_forward(frame.enter(x_BLM), layer.feed_forward))


class EnsembleAttentionView(nn.Module):
    """Graph that returns what the first member of an ensemble shows, with the alignment of all members.

    Args:
        views: view of each member.
    """

    def __init__(self, views: Sequence[AttentionView]) -> None:
        super().__init__()
        self.views = nn.ModuleList(views)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> tuple[Tensor, ...]:
        """Return the results of `AttentionView.forward` of the first member, with the mean of all alignments."""
        shown: list[tuple[Tensor, ...]] = [view(source_BS, target_BT) for view in self.views]
        return (*shown[0][:-1], torch.stack([of_member[-1] for of_member in shown], dim=0).mean(dim=0))
