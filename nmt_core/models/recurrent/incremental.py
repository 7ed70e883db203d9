"""Split a recurrent model for decoding, as `models/incremental.py` splits the Transformer.

Letters: see `model.py`, and `cells.py` for I.
"""

import torch.nn.functional as F
from torch import Tensor

from nmt_core.models.incremental import DecodingStep
from nmt_core.models.kernels import Graph, Kernels
from nmt_core.models.recurrent.cells import Recurrence, State, read_steps
from nmt_core.models.recurrent.model import RecurrentModel
from nmt_core.tokenizer.tokenizer import PAD_ID


class RnnKernels(Kernels):
    """Operations of decoding in PyTorch, for recurrent models.

    Args:
        model: recurrent model in evaluation mode. Its parameters are shared, not copied.
    """

    def read(
        self, recurrence: Recurrence, x_BLI: Tensor, is_token_BL: Tensor, *, reverse: bool
    ) -> tuple[Tensor, State]:
        """Read a source (see `cells.Read`)."""
        return read_steps(recurrence, x_BLI, is_token_BL, reverse=reverse)


class RnnEncoderGraph(Graph):
    """Graph that maps source ids to the tensors that stay with each sentence, and to the decoder's first states."""

    model: RecurrentModel
    kernels: RnnKernels

    def forward(self, source_BS: Tensor) -> list[Tensor]:
        """Return the tensors of `cross_shapes`, then the tensors of `state_sizes`.

        Args:
            source_BS: source ids, end marks included, padded.
        """
        source = self.model.encode(source_BS, source_BS != PAD_ID, self.kernels.read)
        cross, states = self.model.start(source)
        return [*cross, *(part for state in states for part in state)]


class RnnStepGraph(DecodingStep):
    """Graph of one step of a recurrent model, with states of the decoder in place of keys and values."""

    model: RecurrentModel

    def read(
        self, tokens_R: Tensor, position_1: Tensor, source_mask_BS: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the states [R, M] before the output matrix, and the next past (see `incremental.DecodingStep`).

        Args:
            tokens_R: ids of the tokens to read.
            position_1: not used.
            source_mask_BS: bool, True at source tokens and False at padding.
            cross: first part of the result of `RnnEncoderGraph`.
            past: rest of that result, or second result of the previous step, in the order of the rows; each [R, ...].
        """
        model = self.model
        y_RE = F.embedding(tokens_R, model.target_embedding.weight)
        state_RM, states = model.step(y_RE, cross, source_mask_BS, model.states_of(past))
        return state_RM, [part for state in states for part in state]
