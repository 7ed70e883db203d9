"""Split the Transformer for decoding: what is computed once a source, and what is computed once a target token.

The same modules run in PyTorch (`search/torch_step.py`) and are exported to ONNX (`export/graphs.py`), each with its
own `Kernels`. Attention is computed for one query at a time, where fused kernels for sequences have no advantage.

Letters: see `nmt_core.models`.
"""

import math
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt_core.models.kernels import Graph, Kernels
from nmt_core.models.layers import DecoderLayer, EncoderLayer, Ssru, split_heads
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import PAD_ID


class EncoderGraph(Graph):
    """Graph that maps source ids to the keys and values that the layers of the decoder attend to at every step.

    If the layers of the decoder are recurrent, it also returns their first states.
    """

    model: Transformer

    def forward(self, source_BS: Tensor) -> list[Tensor]:
        """Return [key, value] of layer 0, of layer 1 and so on, each [B, H, S, D].

        First states [B, M] of zeros follow, one for each recurrent layer of the decoder.

        Args:
            source_BS: source ids, end marks included, padded.
        """
        model, kernels, mask_BS = self.model, self.kernels, source_BS != PAD_ID
        x_BSM = kernels.embed(source_BS, "source") * math.sqrt(model.config.d_model)
        positions_SM = model.positions_LM[: source_BS.shape[1]]
        if not model.turns:
            x_BSM = x_BSM + positions_SM
        for layer in cast(list[EncoderLayer], model.encoder):
            frame, attention = layer.self_attention_frame, layer.self_attention
            projected = kernels.linear(frame.enter(x_BSM), attention.query_key_value)
            projected = kernels.turn(projected, positions_SM) if model.turns else projected
            x_BSM = frame.leave(x_BSM, kernels.linear(kernels.attend_source(projected, mask_BS), attention.output))
            x_BSM = _feed_forward(x_BSM, layer, kernels)
        memory_BSM: Tensor = model.encoder_norm(x_BSM)
        layers = [layer.cross_attention.key_value for layer in cast(list[DecoderLayer], model.decoder)]
        keys_values = torch.split(kernels.linear(memory_BSM, *layers), list(kernels.widths[1:]) * len(layers), dim=-1)
        states = [x_BSM.new_zeros(x_BSM.shape[0], x_BSM.shape[2]) for _ in range(model.recurrent_layers)]
        return [*(split_heads(x_BSP, kernels.num_heads).transpose(1, 2) for x_BSP in keys_values), *states]


class OutputGraph(Graph):
    """Graph of the part of the output matrix that the steps of a batch need to choose from a shortlist.

    The part is copied once a batch.
    """

    def forward(self, ids_WE: Tensor) -> list[Tensor]:
        """Return tensors whose last sizes are [W, E], for these ids of the vocabulary."""
        return self.kernels.output_of(ids_WE)


class DecodingStep(Graph):
    """Graph of one step of decoding, from the last token of each row to its most probable successors."""

    def read(
        self, tokens_R: Tensor, position_1: Tensor, source_mask_BS: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the states [R, M] before the output matrix, and the next past. See `forward` for the arguments."""
        raise NotImplementedError

    def forward(
        self,
        tokens_R: Tensor,
        position_1: Tensor,
        source_mask_BS: Tensor,
        choice: Sequence[Tensor],
        cross: list[Tensor],
        past: list[Tensor],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Decode one more position.

        Args:
            tokens_R: ids of the tokens to read. R is any multiple of B, so a first step has one row per sentence.
            position_1: number of tokens that each row has read before, T.
            source_mask_BS: bool, True at source tokens and False at padding.
            choice: [C] with any values: its length is the number of successors to return. With a shortlist, it is
                followed by the penalties [B, W, E] of the tokens in each sentence, 0 or minus infinity, and by the
                result of `OutputGraph`.
            cross: result of `EncoderGraph`, each [B, H, S, D]. It is never copied per beam.
            past: second result of the previous step, with its rows in the order of the rows that continue them. Each is
                [R, H, T, D] with T = 0 at the first step, or has room for more positions (`Kernels.writes_in_place`).
                Of a recurrent decoder, the state [R, M] of each layer.

        Returns:
            Log-probabilities [R, C] in nats, best first, their ids [R, C] or places in the shortlist, and any other
            results of `Kernels.chosen`; and [key, value] of each layer's self-attention with this position at the end,
            each [R, H, T + 1, D], or written into `past`; or the next state of each layer.
        """
        state_RM, present = self.read(tokens_R, position_1, source_mask_BS, cross, past)
        return self.kernels.chosen(state_RM, choice), present


class StepGraph(DecodingStep):
    """Graph of one step of a Transformer."""

    model: Transformer

    def read(
        self, tokens_R: Tensor, position_1: Tensor, source_mask_BS: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the states [R, M] before the output matrix, and the next past (see `DecodingStep`)."""
        model, kernels, present = self.model, self.kernels, list[Tensor]()
        x_R1M = kernels.embed(tokens_R[:, None], "target") * math.sqrt(model.config.d_model)
        position_1M = F.embedding(position_1, model.positions_LM)
        if not model.turns:
            x_R1M = x_R1M + position_1M
        for number, layer in enumerate(cast(list[DecoderLayer], model.decoder)):
            of_layer = slice(2 * number, 2 * number + 2)
            frame = layer.self_attention_frame
            if layer.recurrence:
                read_R1M, *held = _read(frame.enter(x_R1M), layer.recurrence, past[number], kernels)
            else:
                attention = layer.self_attention
                projected = kernels.linear(frame.enter(x_R1M), attention.query_key_value)
                projected = kernels.turn(projected, position_1M) if model.turns else projected
                attended_R1P, *held = kernels.attend_past(number, projected, past[of_layer], position_1)
                read_R1M = kernels.linear(attended_R1P, attention.output)
            present += held
            x_R1M = frame.leave(x_R1M, read_R1M)
            frame = layer.cross_attention_frame
            x_BKM = frame.enter(x_R1M).view(source_mask_BS.shape[0], -1, model.config.d_model)
            q_BKP = kernels.linear(x_BKM, layer.cross_attention.query)
            attended_BKP = kernels.attend_cross(q_BKP, cross[of_layer], source_mask_BS)
            attended_R1P = attended_BKP.view(-1, 1, kernels.widths[-1])
            x_R1M = frame.leave(x_R1M, kernels.linear(attended_R1P, layer.cross_attention.output))
            x_R1M = _feed_forward(x_R1M, layer, kernels)
        return model.decoder_norm(x_R1M).squeeze(1), present


def _read(x_R1M: Tensor, recurrence: Ssru, state_RM: Tensor, kernels: Kernels) -> tuple[Tensor, Tensor]:
    """Return the output [R, 1, M] of a recurrent unit for one more token, and its next state [R, M]."""
    forget_R1M, new_R1M = recurrence.gate(kernels.linear(x_R1M, recurrence.input_gate))
    next_RM = forget_R1M.squeeze(1) * state_RM.float() + new_R1M.squeeze(1)
    return F.relu(next_RM)[:, None].to(x_R1M.dtype), next_RM.to(state_RM.dtype)


def _feed_forward(x_M: Tensor, layer: EncoderLayer | DecoderLayer, kernels: Kernels) -> Tensor:
    frame = layer.feed_forward_frame
    return frame.leave(x_M, kernels.feed_forward(frame.enter(x_M), layer.feed_forward))
