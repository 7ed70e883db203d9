"""Compute every matrix of the first layers of a Transformer, step by step, to show them as numbers or heat maps.

Letters: see `nmt_core.models`. Here F is `d_ff`.
"""

import math
from typing import cast

from torch import Tensor

from nmt_core.config import Side
from nmt_core.models.attention import Sight, attention_scores, visible
from nmt_core.models.attention_trace import AttentionView
from nmt_core.models.kernels import Kernels
from nmt_core.models.layers import DecoderLayer, EncoderLayer, join_heads, split_heads
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import PAD_ID


def can_be_worked(model: Transformer) -> bool:
    """Return True if a model has self-attention on both sides."""
    return not model.recurrent_layers


class WorkedExample(AttentionView):
    """Graph that returns the matrices of the first layers (`search/attention.py` names the outputs).

    Args:
        kernels: kernels to compute with, which hold the model in evaluation mode.
    """

    def __init__(self, kernels: Kernels) -> None:
        super().__init__(kernels, aligning_layers=1)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> tuple[Tensor, ...]:
        """Compute one pass, and return what its first layers compute.

        Args:
            source_BS: source ids with end mark, padded.
            target_BT: target ids that begin with <s>, padded.

        Returns:
            Matrices of self-attention in the first layer of the encoder (see `self_attention`). Matrices of its
            feed-forward network (see `feed_forward`). Matrices of self-attention in the first layer of the decoder.
            Last, the logits [B, T, V].
        """
        model, mask_BS = self.model, source_BS != PAD_ID
        source_BSM, target_BTM = self._input(source_BS, "source"), self._input(target_BT, "target")
        first = cast(EncoderLayer, model.encoder[0])
        of_encoder = self.self_attention(source_BSM, first, mask_BS[:, None], causal=False)
        of_network = self.feed_forward(of_encoder[-1], first)
        memory_BSM, _ = self.encode(source_BSM, mask_BS)
        of_decoder = self.self_attention(target_BTM, cast(DecoderLayer, model.decoder[0]), None, causal=True)
        cross, x_BTM = self.cross(memory_BSM), target_BTM
        for number, layer in enumerate(cast(list[DecoderLayer], model.decoder)):
            x_BTM, _ = self.attend_past(x_BTM, layer)
            weights_BHTS = self.cross_weights(x_BTM, layer, cross[2 * number], mask_BS)
            x_BTM = self.after_cross(x_BTM, layer, weights_BHTS, cross[2 * number + 1])
        # With one row for each token, as in a step of the search, so that both graphs read the same output matrix.
        logits_RV = self.kernels.logits(model.decoder_norm(x_BTM).flatten(0, 1), ())
        logits_BTV = logits_RV.view(x_BTM.shape[0], -1, logits_RV.shape[1])
        return (*of_encoder, *of_network, *of_decoder, logits_BTV)

    def _input(self, ids_BL: Tensor, side: Side) -> Tensor:
        embedding_BLM, positions_LM = self.embed(ids_BL, side)
        return embedding_BLM + positions_LM

    def self_attention(
        self, x_BLM: Tensor, layer: EncoderLayer | DecoderLayer, mask: Tensor | None, *, causal: bool
    ) -> list[Tensor]:
        """Return the matrices of a self-attention sub-layer in order (Vaswani et al. 2017, sections 3.2.1 and 3.2.2).

        The input and what enters the attention, [B, L, M]. Queries, keys and values, [B, H, L, D]. The scores q k^T,
        the scores over sqrt(D), the masked scores and the weights, [B, H, L, L]. The sums of values, [B, H, L, D], and
        all heads side by side, [B, L, P]. The output, the residual sum and what leaves the sub-layer, [B, L, M].
        """
        frame, attention = layer.self_attention_frame, layer.self_attention
        entered_BLM = frame.enter(x_BLM)
        projected = self.kernels.linear(entered_BLM, attention.query_key_value)
        if self.model.turns:
            projected = self.kernels.turn(projected, self.model.positions_LM[: projected.shape[1]])
        q_BHLD, k_BHLD, v_BHLD = (
            split_heads(x_BLP, self.kernels.num_heads).transpose(1, 2) for x_BLP in self.kernels.split(projected)
        )
        scaled_BHLL = attention_scores(q_BHLD, k_BHLD)
        raw_BHLL = scaled_BHLL * math.sqrt(q_BHLD.shape[-1])
        seen_BLL = visible(mask, Sight(causal, self.model.config.attention_width), x_BLM.shape[1], x_BLM.device)
        masked_BHLL = scaled_BHLL.masked_fill(~seen_BLL[:, None], float("-inf"))
        weights_BHLL = masked_BHLL.softmax(-1)
        summed_BHLD = weights_BHLL @ v_BHLD
        joined_BLP = join_heads(summed_BHLD.transpose(1, 2))
        output_BLM = self.kernels.linear(joined_BLP, attention.output)
        scores = [raw_BHLL, scaled_BHLL, masked_BHLL, weights_BHLL]
        around = [output_BLM, x_BLM + output_BLM, frame.leave(x_BLM, output_BLM)]
        return [x_BLM, entered_BLM, q_BHLD, k_BHLD, v_BHLD, *scores, summed_BHLD, joined_BLP, *around]

    def feed_forward(self, x_BLM: Tensor, layer: EncoderLayer) -> list[Tensor]:
        """Return the matrices of a feed-forward sub-layer in order (Vaswani et al. 2017, section 3.3).

        After the activation, [B, L, F]. After the second matrix, the residual sum, and what leaves, [B, L, M].
        """
        frame, network = layer.feed_forward_frame, layer.feed_forward
        activated_BLF = network.activate(self.kernels.linear(frame.enter(x_BLM), network.inner))
        output_BLM = self.kernels.linear(activated_BLF, network.outer)
        return [activated_BLF, output_BLM, x_BLM + output_BLM, frame.leave(x_BLM, output_BLM)]
