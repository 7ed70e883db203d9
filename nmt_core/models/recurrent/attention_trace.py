"""The attention of recurrent models in sight, a step at a time: for people to look at, and for word alignments.

Letters in names of tensors: B sentences, S source positions, E `d_model`, H hidden units.
"""

from typing import cast

import torch.nn.functional as F
from torch import Tensor

from nmt_core.models.kernels import Graph
from nmt_core.models.recurrent.attention import DotAttentionModel, SearchLayer, SearchModel
from nmt_core.models.recurrent.cells import CELLS, State
from nmt_core.tokenizer.tokenizer import PAD_ID


class RecurrentAttentionStep(Graph):
    """One step of decoding, with the share of its attention that it pays to each source position.

    Args:
        kernels: they hold a model with attention, in evaluation mode.
    """

    model: SearchModel | DotAttentionModel

    def forward(
        self, source_BS: Tensor, tokens_B: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Read one token of each sentence.

        Args:
            source_BS: source ids with end mark, padded.
            tokens_B: what the decoder reads.
            cross: what `RnnEncoderGraph` gave of the source.
            past: the first states, or the last result of the step before; each [B, H].

        Returns:
            Attention [B, S], embeddings of the source [B, S, E] and of the tokens [B, E], and the states behind them.
        """
        model, is_token_BS = self.model, source_BS != PAD_ID
        width = len(CELLS[model.config.rnn.cell].names)
        states: list[State] = [tuple(past[first : first + width]) for first in range(0, len(past), width)]
        y_BE = F.embedding(tokens_B, model.target_embedding.weight)
        _, after = model.step(y_BE, cross, is_token_BS, states)
        if isinstance(model, SearchModel):
            layer = cast(SearchLayer, model.decoder[0])
            weights_B1S = layer.align(cross[1], is_token_BS, states[0][0])
        else:
            weights_B1S = model.align(after[-1][0][:, None], cross[0], is_token_BS)
        source_BSE = F.embedding(source_BS, model.source_embedding.weight)
        return weights_B1S.squeeze(1), source_BSE, y_BE, [part for state in after for part in state]
