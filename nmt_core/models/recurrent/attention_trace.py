"""Compute recurrent models step by step, and return their attention for display and for word alignments.

Letters: see `model.py`.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.models.ensemble import part_of
from nmt_core.models.kernels import Graph
from nmt_core.models.recurrent.attention import AttendingModel
from nmt_core.tokenizer.tokenizer import PAD_ID


class RecurrentAttentionStep(Graph):
    """Graph of one step of decoding that returns the attention to each source position.

    Args:
        kernels: kernels that hold a model with attention, in evaluation mode.
    """

    model: AttendingModel

    def forward(
        self, source_BS: Tensor, tokens_B: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Read one token of each sentence.

        Args:
            source_BS: source ids with end mark, padded.
            tokens_B: ids of the tokens that the decoder reads.
            cross: first part of the result of `RnnEncoderGraph` for the source.
            past: first states of the decoder, or last result of the previous step, each [B, ...].

        Returns:
            Attention [B, S], embeddings of the source [B, S, E] and of the tokens [B, E], and the next states.
        """
        model, is_token_BS = self.model, source_BS != PAD_ID
        states = model.states_of(past)
        y_BE = F.embedding(tokens_B, model.target_embedding.weight)
        _, after = model.step(y_BE, cross, is_token_BS, states)
        weights_B1S = model.weights(states, after, cross, is_token_BS)
        source_BSE = F.embedding(source_BS, model.source_embedding.weight)
        return weights_B1S.squeeze(1), source_BSE, y_BE, [part for state in after for part in state]


class EnsembleRecurrentAttentionStep(nn.Module):
    """Graph of one step of all members of an ensemble that returns their mean attention to each source position.

    Args:
        steps: step of each member.
    """

    def __init__(self, steps: Sequence[RecurrentAttentionStep]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(
        self, source_BS: Tensor, tokens_B: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Read one token of each sentence. Embeddings are the first member's (see `RecurrentAttentionStep.forward`).

        Args:
            source_BS: source ids with end mark, padded.
            tokens_B: ids of the tokens that the decoder reads.
            cross: tensors of all members, one member after the other.
            past: states of all members, one member after the other.
        """
        read = []
        for number, step in enumerate(self.steps):
            of_member, before = (part_of(held, number, len(self.steps)) for held in (cross, past))
            read.append(step(source_BS, tokens_B, of_member, before))
        weights_BS = torch.stack([one[0] for one in read], dim=0).mean(dim=0)
        return weights_BS, read[0][1], read[0][2], [state for one in read for state in one[3]]
