"""The Transformer over whole sentences with its attention in sight: for people to look at, and for word alignments.

The target is given, as in training ("teacher forcing"), so that one pass computes every position. It is put together
from the same `Kernels` as the graphs that translate, in the same products: a graph of it needs no weights of its own.

Letters in names of tensors: B sentences, S source positions, T target positions, N layers, H heads, D width of a head,
M `d_model`.
"""

import math
from typing import cast

import torch
from torch import Tensor

from nmt_core.config import Side
from nmt_core.models.attention import attention_weights
from nmt_core.models.kernels import Graph, Kernels
from nmt_core.models.layers import DecoderLayer, EncoderLayer, join_heads, split_heads
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import PAD_ID


class AttentionView(Graph):
    """Everything that there is to see of a pass (`search/attention.py` names the outputs).

    Args:
        kernels: as of the others.
        aligning_layers: how many layers of the decoder, the last ones, say which words belong together.
    """

    model: Transformer

    def __init__(self, kernels: Kernels, aligning_layers: int) -> None:
        super().__init__(kernels)
        self.aligning_layers = aligning_layers

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> tuple[Tensor, ...]:
        """Source ids with end mark, padded, and target ids that begin with <s>, padded.

        Returns:
            `source_embedding` [B, S, M] and `source_positions` [S, M], `target_embedding` [B, T, M] and
            `target_positions` [T, M], whose sums are what the first layers read; `encoder_attention` [B, N, H, S, S],
            `decoder_attention` [B, N, H, T, T] and `cross_attention` [B, N, H, T, S]; and for alignments the mean of
            the latter over the heads of the last layers, [B, T, S]. Rows of padding say nothing.
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
        return (*source, *target, *stacked, torch.cat(of_cross[-self.aligning_layers :], dim=1).mean(dim=1))

    def embed(self, ids_BL: Tensor, side: Side) -> tuple[Tensor, Tensor]:
        """Embeddings times sqrt(d_model), [B, L, M]; and what is added for their positions, [L, M], 0 if they turn."""
        x_BLM = self.kernels.embed(ids_BL, side) * math.sqrt(self.model.config.d_model)
        if self.model.turns:
            return x_BLM, torch.zeros_like(x_BLM[0])
        return x_BLM, self.model.positions_LM[: ids_BL.shape[1]]

    def encode(self, x_BSM: Tensor, mask_BS: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Embedded source to memory [B, S, M]; and the weights of each layer, [B, H, S, S]."""
        found = list[Tensor]()
        for layer in cast(list[EncoderLayer], self.model.encoder):
            frame, attention = layer.self_attention_frame, layer.self_attention
            projected = self.kernels.linear(frame.enter(x_BSM), attention.query_key_value)
            attended_BSM, weights_BHSS = self._attend_self(projected, mask_BS[:, None], causal=False)
            x_BSM = frame.leave(x_BSM, self.kernels.linear(attended_BSM, attention.output))
            x_BSM = self._feed_forward(x_BSM, layer)
            found.append(weights_BHSS)
        return self.model.encoder_norm(x_BSM), found

    def cross(self, memory_BSM: Tensor) -> list[Tensor]:
        """Memory to [key, value] of layer 0, of layer 1...; each [B, H, S, D]; one product, as in `EncoderGraph`."""
        layers = [layer.cross_attention.key_value for layer in cast(list[DecoderLayer], self.model.decoder)]
        widths = list(self.kernels.widths[1:]) * len(layers)
        return [self._heads(x_BSP) for x_BSP in torch.split(self.kernels.linear(memory_BSM, *layers), widths, dim=-1)]

    def attend_past(self, x_BTM: Tensor, layer: DecoderLayer) -> tuple[Tensor, Tensor]:
        """The first sub-layer of the decoder; and its weights, [B, H, T, T]."""
        frame, attention = layer.self_attention_frame, layer.self_attention
        projected = self.kernels.linear(frame.enter(x_BTM), attention.query_key_value)
        attended_BTM, weights_BHTT = self._attend_self(projected, None, causal=True)
        return frame.leave(x_BTM, self.kernels.linear(attended_BTM, attention.output)), weights_BHTT

    def cross_weights(self, x_BTM: Tensor, layer: DecoderLayer, key_BHSD: Tensor, mask_BS: Tensor) -> Tensor:
        """Weights of the second sub-layer, [B, H, T, S]."""
        q_BTM = self.kernels.linear(layer.cross_attention_frame.enter(x_BTM), layer.cross_attention.query)
        return attention_weights(self._heads(q_BTM), key_BHSD, mask_BS[:, None])

    def after_cross(self, x_BTM: Tensor, layer: DecoderLayer, weights_BHTS: Tensor, value_BHSD: Tensor) -> Tensor:
        """The rest of the layer: what the weights select, and the feed-forward sub-layer."""
        attended_BTM = join_heads((weights_BHTS @ value_BHSD).transpose(1, 2))
        x_BTM = layer.cross_attention_frame.leave(
            x_BTM, self.kernels.linear(attended_BTM, layer.cross_attention.output)
        )
        return self._feed_forward(x_BTM, layer)

    def _attend_self(self, projected: Tensor, mask: Tensor | None, *, causal: bool) -> tuple[Tensor, Tensor]:
        if self.model.turns:
            projected = self.kernels.turn(projected, self.model.positions_LM[: projected.shape[1]])
        q_BHLD, k_BHLD, v_BHLD = (self._heads(x_BLP) for x_BLP in self.kernels.split(projected))
        weights_BHLL = attention_weights(q_BHLD, k_BHLD, mask, causal=causal)
        return join_heads((weights_BHLL @ v_BHLD).transpose(1, 2)), weights_BHLL

    def _heads(self, x_BLM: Tensor) -> Tensor:
        return split_heads(x_BLM, self.kernels.num_heads).transpose(1, 2)

    def _feed_forward(self, x_BLM: Tensor, layer: EncoderLayer | DecoderLayer) -> Tensor:
        frame = layer.feed_forward_frame
        return frame.leave(x_BLM, self.kernels.feed_forward(frame.enter(x_BLM), layer.feed_forward))
